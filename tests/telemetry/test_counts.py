"""Counts by task, minute and hour on the server: recounted from known outcomes, and within their bounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

import msgspec
import pytest

from lockwork.ids import node_id
from lockwork.protocol.effects import Protocol
from lockwork.protocol.flows import flows
from lockwork.protocol.flows.flows import FlowJob
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.metrics import metrics
from lockwork.protocol.metrics.metrics import Times, Unit
from lockwork.protocol.queue import enqueue, job_control, leases, record_header, status
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.leases import OTHER, Leased, Outcome
from models.bench import Bench
from simulator.server import Build, Server

QUEUE = QueueKeys("sim", "q")
SESSION = "host/1/counts"
WINDOW_MS = 600_000
MINUTE = 60_000_000
HOUR = 60 * MINUTE
TASKS = ("send", "app.mail:send", 'odd"na\\me', "größe", "a;b", "Größe,x", "[", "]")
_NAMES = {"s": "succeeded", "r": "retried", "k": "retried", "d": "dead", "K": "dead", "c": "cancelled"}
_SNOOZE = "elseif outcome == 'z' then"
_RUN, _LENGTH = "counts_of(task or OTHER), last", "last + (length or"
_HOUR = "redis.pcall('HINCRBY', hour_hash, hour .. name, count) == count"
_MINUTE = "redis.pcall('HINCRBY', minute_hash, minute .. name, count) == count"
_COUNTS = "metrics/parts/counts"
MUTANTS = (
    Build("a lease that is over is counted", (("queue/settle", "if tokens[index] ~= token then", "if false then"),)),
    Build("the tasks are mixed up", (("queue/settle", _RUN, "counts_of(OTHER), last"),)),
    Build("a run is one longer", (("queue/settle", _LENGTH, "last + 1 + (length or"),)),
    Build("a snooze is counted", (("queue/settle", _SNOOZE, f"{_SNOOZE} counts.r = (counts.r or 0) + 1"),)),
    Build("an escaped name is not read", (("metrics/parts/task_name", "if not task then", "if false then"),)),
    Build("an expired job is not counted", (("queue/expire", "count_job(record, 'x')", ""),)),
    Build("a cancelled job is not counted", (("queue/cancel", "count_job(record, 'c')", ""),)),
    Build("a flow's cancelled job is not counted", (("flows/parts/jobs", "count_job(job_record, 'c')", ""),)),
    Build("a crash is not counted", (("queue/recover", "count_job(record, 'd')", ""),)),
    Build("hours are not counted", ((_COUNTS, _HOUR, "false"),)),
    Build("minutes are not counted", ((_COUNTS, _MINUTE, "false"),)),
    Build("all periods have one hash", ((_COUNTS, "minutes[1 + math.floor(number / 60) % 2]", "minutes[1]"),)),
)  # fmt: skip


@pytest.fixture(scope="module")
def simulated(url: str) -> Iterator[Server]:
    server = Server(url)
    yield server
    server.close()


def record(task: str, unique: str = "") -> bytes:
    return record_header.head(1, 9, unique=unique) + msgspec.json.encode([task, [1]])


class Recount:
    """Ends jobs in all ways, and counts the outcomes itself."""

    def __init__(self, bench: Bench, seed: int) -> None:
        self.bench = bench
        self.random = Random(seed)
        self.made = 0
        self.tasks: dict[str, str] = {}
        self.known: dict[tuple[int, str, str], int] = Counter()
        """By minute, task and name."""
        bench.run(leases.beat(QUEUE, {SESSION: True}, 10**9, 1.0))

    def count(self, id: str, name: str) -> None:
        self.known[self.bench.now // MINUTE, self.tasks[id], name] += 1

    def push(self, count: int, *, delay_ms: int = 0, expires_ms: int | None = None) -> list[str]:
        ids = [f"j{self.made + at}" for at in range(count)]
        self.made += count
        self.tasks |= {id: self.random.choice(TASKS) for id in ids}
        new = [NewJob(id, record(self.tasks[id]), delay_ms) for id in ids]
        self.bench.run(enqueue.push(QUEUE, new, expires_ms=expires_ms))
        return ids

    def lease(self, count: int, session: str = SESSION) -> list[Leased]:
        self.made += 1
        return self.bench.run(leases.reserve(QUEUE, session, count, f"r{self.made}", "")).jobs

    def work(self, count: int) -> None:
        """Run ready jobs to any outcome; a tenth of the leases have ended, and some outcomes are sent twice."""
        outcomes = []
        for job in self.lease(count):
            kind = self.random.choice("sssssrdkKgzc")
            token = b"1 1 other" if self.random.random() < 0.1 else job.token
            outcomes.append(Outcome(job.id, token, kind, b"{}", 1 if kind in "rkz" else 0, self.tasks[job.id]))  # type: ignore[arg-type]
        if self.random.random() < 0.5:
            outcomes.sort(key=lambda outcome: outcome.task)
        settled = self.bench.run(leases.settle(QUEUE, SESSION, outcomes, WINDOW_MS))
        for outcome, done in zip(outcomes, settled, strict=True):
            if outcome.token != b"1 1 other":
                assert done
                if outcome.kind in _NAMES:
                    self.count(outcome.id, _NAMES[outcome.kind])
        self.bench.run(leases.settle(QUEUE, SESSION, outcomes[:5], WINDOW_MS))

    def expire(self) -> None:
        ids = self.push(3, delay_ms=50_000, expires_ms=1000)
        self.bench.now += 2_000_000
        self.bench.run(leases.expire(QUEUE, WINDOW_MS))
        for id in ids:
            self.count(id, "expired")

    def cancel(self) -> None:
        for id in self.push(2, delay_ms=50_000):
            assert self.bench.run(job_control.cancel(QUEUE, id, "sim")) == "cancelled"
            self.count(id, "cancelled")

    def crash(self) -> None:
        """A worker dies with jobs that may be delivered once."""
        session = f"host/1/dies{self.made}"
        self.bench.run(leases.beat(QUEUE, {session: True}, 10**9, 1.0))
        id = f"j{self.made}"
        self.made += 1
        self.tasks[id] = self.random.choice(TASKS)
        new = record_header.head(0, 1, deliveries=1) + msgspec.json.encode([self.tasks[id], []])
        self.bench.run(enqueue.push(QUEUE, [NewJob(id, new)]))
        (job,) = self.lease(1, session)
        assert job.id == id
        self.bench.run(leases.recover(QUEUE, session, WINDOW_MS, gone=True))
        self.count(id, "dead")

    def cancel_flow(self) -> None:
        self.made += 1
        flow = f"f{self.made}"
        self.bench.run(
            flows.push(QUEUE, flow, [FlowJob(record(task, unique=">"), [], 60_000) for task in TASKS], [], 600)
        )
        self.bench.run(flows.cancel(QUEUE, flow, WINDOW_MS))
        for at, task in enumerate(TASKS, 1):
            self.tasks[node_id(flow, at)] = task
            self.count(node_id(flow, at), "cancelled")

    def check(self, unit: Unit, length: int, count: int) -> None:
        """Compare the server's counts with ours."""
        found = self.bench.run(metrics.read(QUEUE, unit, count))
        last = self.bench.now // length
        assert found.last == last
        read = {
            (number, task, name): each
            for task, moments in found.tasks.items()
            for number, moment in moments.items()
            for name, each in moment.counts.items()
        }
        mine: dict[tuple[int, str, str], int] = Counter()
        for (minute, task, name), each in self.known.items():
            if last - count < (number := minute * MINUTE // length) <= last:
                mine[number, task, name] += each
        assert read == mine


def recount(bench: Bench, seed: int) -> None:
    counts = Recount(bench, seed)
    ways = [counts.expire, counts.cancel, counts.crash, counts.cancel_flow]
    for _ in range(30):
        counts.push(counts.random.randint(0, 40))
        counts.work(counts.random.choice([1, 20, 500]))
        counts.random.choice(ways)()
        bench.now += counts.random.choice([1_000_000, 7_000_000, 3 * MINUTE])
        counts.check("m", MINUTE, 60)
    bench.now += counts.random.choice([0, 30 * MINUTE, 59 * MINUTE, HOUR])
    counts.push(10)
    counts.work(10)
    for unit, length, count in (("m", MINUTE, 15), ("m", MINUTE, 60), ("h", HOUR, 24), ("h", HOUR, 168)):
        counts.check(unit, length, count)  # type: ignore[arg-type]
    found, _ = bench.run(status.status(QUEUE))
    totals: Counter[str] = Counter()
    for (_, _, name), each in counts.known.items():
        totals[name] += each
    assert {name: getattr(found, name) for name in ("succeeded", "retried", "cancelled", "expired")} == {
        name: totals[name] for name in ("succeeded", "retried", "cancelled", "expired")
    }
    assert found.failed == totals["retried"] + totals["dead"]


@pytest.mark.parametrize("seed", range(8))
def test_counts_are_exact(simulated: Server, seed: int) -> None:
    recount(Bench(simulated, Build()), seed)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_is_caught(simulated: Server, mutant: Build) -> None:
    for seed in range(8):
        try:
            recount(Bench(simulated, mutant), seed)
        except AssertionError:
            return
    pytest.fail(f"not caught: {mutant.name}")


def test_keys_expire_when_their_next_period_begins(simulated: Server) -> None:
    bench = Bench(simulated, Build())
    bench.now += 10 * MINUTE
    counts = Recount(bench, 1)
    counts.push(20)
    counts.work(20)
    period = bench.now // HOUR % 2
    assert simulated.command("PTTL", QUEUE.minutes[period]) == pytest.approx(110 * 60_000, abs=60_000)
    week = bench.now // (168 * HOUR)
    left = (week + 2) * 168 * HOUR - bench.now
    assert simulated.command("PTTL", QUEUE.hours[week % 2]) == pytest.approx(left / 1000, abs=60_000)
    assert simulated.command("PTTL", QUEUE.counted_tasks) > 168 * 3600 * 1000


def test_clock_set_back_loses_nothing(simulated: Server) -> None:
    bench = Bench(simulated, Build())
    counts = Recount(bench, 2)
    for step in (HOUR, -50 * MINUTE, 20 * MINUTE, 31 * MINUTE):
        bench.now += step
        counts.push(30)
        counts.work(30)
        counts.check("m", MINUTE, 60)
    counts.check("h", HOUR, 24)


def settled(bench: Bench, tasks: list[str]) -> None:
    """Let one job of each task succeed."""
    bench.run(leases.beat(QUEUE, {SESSION: True}, 10**9, 1.0))
    new = [NewJob(f"{bench.now}-{at}", record(task)) for at, task in enumerate(tasks)]
    bench.run(enqueue.push(QUEUE, new))
    known = {job.id: task for job, task in zip(new, tasks, strict=True)}
    while jobs := bench.run(leases.reserve(QUEUE, SESSION, 500, f"{bench.now}", "")).jobs:
        ended = [Outcome(job.id, job.token, "s", task=known[job.id]) for job in jobs]
        assert all(bench.run(leases.settle(QUEUE, SESSION, ended, WINDOW_MS)))


def test_200_tasks_are_counted_by_name(simulated: Server) -> None:
    bench = Bench(simulated, Build())
    for _ in range(2):
        settled(bench, [f"t{at}" for at in range(300)])
    for unit in ("m", "h"):
        found = bench.run(metrics.read(QUEUE, unit, 24)).tasks
        counts = {
            task: sum(moment.counts["succeeded"] for moment in moments.values()) for task, moments in found.items()
        }
        assert len(counts) == 201
        assert counts.pop(OTHER) == 200
        assert set(counts.values()) == {2}
    assert len(bench.fields(QUEUE.counted_tasks)) == 201
    # names that were not seen for a week make room for new ones
    bench.now += 169 * HOUR
    settled(bench, ["new"])
    assert bench.fields(QUEUE.counted_tasks) == {"new", "#"}


@pytest.mark.parametrize("key", [*QUEUE.minutes, *QUEUE.hours, QUEUE.counted_tasks])
def test_key_of_another_type_costs_no_job(simulated: Server, key: str) -> None:
    bench = Bench(simulated, Build())
    simulated.command("SET", key, "mine")
    settled(bench, [f"t{at}" for at in range(250)])
    found, _ = bench.run(status.status(QUEUE))
    assert (found.succeeded, found.running) == (250, 0)


def times(*microseconds: int) -> Times:
    made = Times()
    for each in microseconds:
        made.add(each)
    return made


def test_flush_adds_once(simulated: Server) -> None:
    bench = Bench(simulated, Build())
    for call in range(3):
        flushing = metrics.flush(
            QUEUE, SESSION, call, {"send": (times(5, 6), times(1000, 9), call), "": (times(), times(7), 0)}, 1.0
        )
        bench.run(flushing, twice=True)
    bench.run(metrics.flush(QUEUE, "host/2/other", 0, {"send": (times(), times(1000), 0)}, 1.0))
    for unit in ("m", "h"):
        found = bench.run(metrics.read(QUEUE, unit, 15)).tasks
        ((_, send),) = found["send"].items()
        assert (send.wait, send.run.sum, send.run.counts.total()) == (Times(33, Counter({9: 3, 10: 3})), 4027, 7)
        ((_, other),) = found[OTHER].items()
        assert other.run == Times(21, Counter({metrics.bucket(7): 3}))
        assert (send.overruns, other.overruns) == (3, 0)


def test_flush_keeps_to_200_tasks(simulated: Server) -> None:
    bench = Bench(simulated, Build())
    bench.run(metrics.flush(QUEUE, SESSION, 0, {f"t{at:03}": (times(), times(7), 0) for at in range(500)}, 1.0))
    found = bench.run(metrics.read(QUEUE, "m", 15)).tasks
    assert len(found) == 201
    assert sum(moment.run.counts.total() for moments in found.values() for moment in moments.values()) == 500


def test_reading_goes_in_bounded_steps(simulated: Server) -> None:
    bench = Bench(simulated, Build())
    settled(bench, [f"t{at}" for at in range(150)])
    calls: list[object] = []

    def counted() -> Protocol[metrics.TaskMoments]:
        reading, reply = metrics.read(QUEUE, "m", 60), None
        while True:
            try:
                call = reading.send(reply)
            except StopIteration as done:
                found: metrics.TaskMoments = done.value
                return found
            calls.append(call)
            reply = yield call

    assert len(bench.run(counted()).tasks) == 150
    assert len(calls) == 31
