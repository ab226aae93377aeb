// BullMQ's jobs: `node bullmq.cjs work`, and `node bullmq.cjs send KIND JOBS [RATE]`. Those of a killed worker run
// again after the lock's 30 seconds. PEER_NODE is the folder where bullmq is installed.
"use strict";

const fs = require("node:fs");
const { createRequire } = require("node:module");
const { Queue, Worker } = createRequire(`${process.env.PEER_NODE}/`)("bullmq");

const url = new URL(process.env.PEER_REDIS);
const connection = { host: url.hostname, port: Number(url.port), maxRetriesPerRequest: null };
const now = () => (performance.timeOrigin + performance.now()) / 1000;
const pause = (seconds) => new Promise((done) => setTimeout(done, seconds * 1000));

function work() {
  const file = fs.openSync(`${process.env.PEER_RECORDS}/${process.pid}`, "a");
  const entry = Buffer.alloc(16);
  const worker = new Worker(
    "peers",
    async (job) => {
      entry.writeDoubleLE(job.data.due, 0);
      entry.writeDoubleLE(now(), 8);
      fs.writeSync(file, entry);
      if (job.name === "io") await pause(0.001);
      if (job.name === "cpu") for (const end = performance.now() + 10; performance.now() < end; );
    },
    { connection, concurrency: 100, removeOnComplete: { count: 0 } },
  );
  process.on("SIGTERM", () => worker.close().then(() => process.exit(0)));
}

async function send(kind, jobs, rate) {
  const queue = new Queue("peers", { connection });
  const job = (due) => ({ name: kind, data: { due } });
  let due = now();
  if (!rate) {
    for (let left = jobs; left > 0; left -= 500) {
      await queue.addBulk(Array.from({ length: Math.min(500, left) }, () => job(due)));
    }
  }
  const times = Array.from({ length: rate ? jobs : 0 }, () => (due -= Math.log(1 - Math.random()) / rate));
  while (times.length) {
    const time = now();
    const later = times.findIndex((each) => each > time);
    const ready = times.splice(0, later < 0 ? times.length : later);
    if (ready.length === 1) await queue.add(kind, { due: ready[0] });
    else if (ready.length) await queue.addBulk(ready.map(job));
    else await pause(Math.max(times[0] - time, 0));
  }
  await queue.close();
}

const [what, kind, jobs, rate] = process.argv.slice(2);
if (what === "work") work();
else send(kind, Number(jobs), Number(rate || 0));
