"""The longest script of each kind of call, by the server's slow log: while one runs, everybody else waits."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator
from functools import cache
from time import perf_counter
from typing import Any, TypeVar

import redis

from benchmarks.figures import Bench, Figure
from lockwork import Lockwork
from lockwork.protocol import keys as names
from lockwork.protocol.dead import dead
from lockwork.protocol.flows import flows
from lockwork.protocol.flows.flows import FlowJob
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import browse, enqueue, job_control, leases, limits, record_header, sessions, status
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.leases import Leased, Outcome
from lockwork.protocol.scripts import names as script_names
from lockwork.protocol.scripts import script
from lockwork.protocol.synchronizers import once

LARGE = 1 << 20
MOST_MS = 10.0
"""Milliseconds that any script may take, however slow the machine is not; or ten times the floor."""
_ROUNDS = 3
WINDOW_MS = 600_000
SESSION = "host/1/bench"
_QUEUE = QueueKeys("lw", "bounds")
_HEAD = record_header.head(1, 5)
_SMALL, _BIG = _HEAD + b'["nothing",[42]]', _HEAD + b"x" * LARGE
T = TypeVar("T")


def bounds(bench: Bench) -> list[Figure]:
    """Let each kind of call meet very many or very large things; compare its longest script with a SET and a GET."""
    figures = []
    with Lockwork(bench.url) as lw, redis.Redis.from_url(bench.url) as client:
        client.config_set("slowlog-log-slower-than", -1)
        client.config_set("slowlog-max-len", 200_000)
        meter = Meter(lw, client)
        for kind in _KINDS:
            floor, rounds = [], []
            for _ in range(min(bench.rounds, _ROUNDS)):
                client.flushall()
                floor.append(_floor(client))
                lw.runtime.run(leases.beat(_QUEUE, {SESSION: True}, 3_600_000, 5.0))
                rounds.append(max(kind(meter, bench)))
            # the machine's other programs interrupt the server, too: the round that met the fewest of them counts
            longest, name = min(rounds)
            title = (kind.__doc__ or "").rstrip(".").lower()
            goal = max(MOST_MS, 10 * min(floor))
            figures.append(
                Figure(f"{title}: {name}", "ms", longest, min(floor), "SET, GET of 1 MiB", goal, less_is_better=True)
            )
        client.config_resetstat()
        client.config_set("slowlog-max-len", 128)
        client.config_set("slowlog-log-slower-than", 10_000)
        client.flushall()
    return figures


class Meter:
    """Runs protocols, and knows how long their scripts took."""

    def __init__(self, lw: Lockwork, client: redis.Redis) -> None:
        self.lw = lw
        self.client = client

    def run(self, protocol: Generator[Any, Any, T]) -> T:
        return self.lw.runtime.run(protocol)

    @contextlib.contextmanager
    def watching(self, found: list[tuple[float, str]]) -> Iterator[None]:
        # Log only these calls. To reset a log of everything that was prepared frees millions of small pieces of memory,
        # which the allocator returns to the system during the next calls: 30 to 160 ms that the scripts do not use.
        self.client.config_set("slowlog-log-slower-than", 0)
        try:
            yield
        finally:
            self.client.config_set("slowlog-log-slower-than", -1)
        entries = self.client.slowlog_get(200_000)
        self.client.slowlog_reset()
        for entry in entries:
            command = entry["command"].split(b" ", 2)
            if command[0].upper() in (b"EVAL", b"EVALSHA"):
                found.append((entry["duration"] / 1000, _name(entry["command"])))

    def longest(self, *protocols: Generator[Any, Any, Any]) -> list[tuple[float, str]]:
        found: list[tuple[float, str]] = []
        with self.watching(found):
            for protocol in protocols:
                self.run(protocol)
        return found

    def push(self, record: bytes, count: int, delay: int = 0, expires: int | None = None) -> list[str]:
        ids = [f"{number:07}" for number in range(count)]
        for at in range(0, count, 1000):
            self.run(
                enqueue.push(_QUEUE, [NewJob(id, record, delay) for id in ids[at : at + 1000]], expires_ms=expires)
            )
        return ids

    def lease(self, count: int) -> list[Leased]:
        held: list[Leased] = []
        while len(held) < count:
            some = self.run(leases.reserve(_QUEUE, SESSION, count - len(held), f"l{len(held)}", "")).jobs
            assert some
            held += some
        return held

    def bury(self, record: bytes, error: bytes, count: int) -> list[str]:
        self.push(record, count)
        held = self.lease(count)
        self.run(leases.settle(_QUEUE, SESSION, [Outcome(job.id, job.token, "d", error) for job in held], WINDOW_MS))
        return [job.id for job in held]


@cache
def _known() -> dict[bytes, str]:
    found = {script(name).sha.encode(): name for name in script_names()}
    return found | {script(name).source.encode()[:60]: name for name in script_names()}


def _name(command: bytes) -> str:
    _, rest = command.split(b" ", 1)
    return next((name for begins, name in _known().items() if rest.startswith(begins)), "a script")


def _floor(client: redis.Redis) -> float:
    """Milliseconds of one SET and one GET."""
    value, times = b"x" * LARGE, []
    for _ in range(20):
        began = perf_counter()
        client.set("floor", value)
        client.get("floor")
        times.append((perf_counter() - began) * 1000)
    client.delete("floor")
    return sorted(times)[len(times) // 2]


Kind = Callable[[Meter, Bench], list[tuple[float, str]]]


def _push(meter: Meter, bench: Bench) -> list[tuple[float, str]]:
    """Enqueue 300 jobs of 1 MiB."""
    found: list[tuple[float, str]] = []
    with meter.watching(found):
        meter.push(_BIG, bench.count(300))
    return found


def _push_small(meter: Meter, bench: Bench) -> list[tuple[float, str]]:
    """Enqueue 1,000,000 jobs."""
    found: list[tuple[float, str]] = []
    with meter.watching(found):
        meter.push(_SMALL, bench.count(1_000_000))
    return found


def _reserve(meter: Meter, bench: Bench) -> list[tuple[float, str]]:
    """Lease 300 jobs of 1 MiB."""
    meter.push(_BIG, bench.count(300))
    found: list[tuple[float, str]] = []
    with meter.watching(found):
        meter.lease(bench.count(300))
    return found


def _reserve_small(meter: Meter, bench: Bench) -> list[tuple[float, str]]:
    """Lease and settle 10,000 of 1,000,000 jobs, a thousand at a time."""
    meter.push(_SMALL, bench.count(1_000_000))
    found: list[tuple[float, str]] = []
    with meter.watching(found):
        for _ in range(10):
            held = meter.lease(1000)
            done = [Outcome(job.id, job.token, "s", b"null") for job in held]
            meter.run(leases.settle(_QUEUE, SESSION, done, WINDOW_MS))
    return found


def _reserve_due(meter: Meter, bench: Bench) -> list[tuple[float, str]]:
    """Lease one job while 100 of 1 MiB are due."""
    meter.push(_BIG, bench.count(100), -1)
    return meter.longest(leases.reserve(_QUEUE, SESSION, 1, "r", ""))


def _expire(meter: Meter, bench: Bench) -> list[tuple[float, str]]:
    """End 100 jobs of 1 MiB that had to begin."""
    meter.push(_BIG, bench.count(100), 0, -1)
    return meter.longest(leases.expire(_QUEUE, WINDOW_MS))


def _expire_small(meter: Meter, bench: Bench) -> list[tuple[float, str]]:
    """End 20,000 jobs that had to begin."""
    meter.push(_SMALL, bench.count(20_000), 0, -1)
    return meter.longest(leases.expire(_QUEUE, WINDOW_MS))


def _recover(meter: Meter, bench: Bench) -> list[tuple[float, str]]:
    """Give the 100 jobs of 1 MiB of a dead worker back."""
    meter.push(_BIG, bench.count(100))
    meter.lease(bench.count(100))
    return meter.longest(leases.recover(_QUEUE, SESSION, WINDOW_MS, gone=True))


def _recover_small(meter: Meter, bench: Bench) -> list[tuple[float, str]]:
    """Give the 5,000 jobs of a dead worker back."""
    meter.push(_SMALL, bench.count(5_000))
    meter.lease(bench.count(5_000))
    return meter.longest(leases.recover(_QUEUE, SESSION, WINDOW_MS, gone=True))


def _give_back(meter: Meter, bench: Bench) -> list[tuple[float, str]]:
    """Give the 100 jobs of 1 MiB of a stopped worker back."""
    meter.push(_BIG, bench.count(100))
    meter.lease(bench.count(100))
    return meter.longest(leases.recover(_QUEUE, SESSION, WINDOW_MS, gone=True, counted=False))


def _settle(meter: Meter, bench: Bench) -> list[tuple[float, str]]:
    """Settle 100 results of 1 MiB."""
    meter.push(_SMALL, bench.count(100))
    done = [Outcome(job.id, job.token, "s", b"x" * LARGE) for job in meter.lease(bench.count(100))]
    return meter.longest(leases.settle(_QUEUE, SESSION, done, WINDOW_MS))


def _fail(meter: Meter, bench: Bench) -> list[tuple[float, str]]:
    """Let 1,000 jobs fail twelve times, with errors of 5 KB."""
    meter.push(_SMALL, bench.count(1000))
    error = b'{"type":"ValueError","message":"%b","traceback":"%b"}' % (b"m" * 1000, b"t" * 4000)
    found: list[tuple[float, str]] = []
    for _ in range(12):
        held = meter.lease(bench.count(1000))
        ends = [Outcome(job.id, job.token, "r", error, 0) for job in held]
        with meter.watching(found):
            meter.run(leases.settle(_QUEUE, SESSION, ends, WINDOW_MS))
    return found


def _search(meter: Meter, bench: Bench) -> list[tuple[float, str]]:
    """Search 20,000 of 1,000,000 jobs by argument."""
    meter.push(_SMALL, bench.count(1_000_000))
    found: list[tuple[float, str]] = []
    with meter.watching(found):
        meter.lw.jobs("bounds", arg="43", budget=20_000)
    return found


def _search_ended(meter: Meter, bench: Bench) -> list[tuple[float, str]]:
    """Show and search 10,000 ended jobs of 100 KB."""
    for _ in range(0, bench.count(10_000), 500):
        meter.push(_HEAD + b"x" * 100_000, 500)
        held = meter.lease(500)
        ends = [Outcome(job.id, job.token, "c") for job in held]
        meter.run(leases.settle(_QUEUE, SESSION, ends, WINDOW_MS))
    found: list[tuple[float, str]] = []
    with meter.watching(found):
        meter.lw.jobs("bounds", state="done", limit=1000)
        meter.lw.jobs("bounds", state="done", text="none", budget=10_000)
    return found


def _search_large(meter: Meter, bench: Bench) -> list[tuple[float, str]]:
    """Search 300 jobs of 1 MiB."""
    meter.push(_BIG, bench.count(300))
    found: list[tuple[float, str]] = []
    with meter.watching(found):
        meter.lw.jobs("bounds", arg="43", budget=300)
    return found


def _clear(meter: Meter, bench: Bench) -> list[tuple[float, str]]:
    """Clear a queue of 100 due jobs of 1 MiB and 20,000 small ones."""
    meter.push(_BIG, bench.count(100), -1)
    meter.run(enqueue.push(_QUEUE, [NewJob(f"s{number}", _SMALL) for number in range(bench.count(20_000))]))
    return meter.longest(browse.clear(_QUEUE, "bench", WINDOW_MS))


def _dead(meter: Meter, bench: Bench) -> list[tuple[float, str]]:
    """List, retry and delete 100 dead jobs of 1 MiB, with errors of 1 MiB."""
    meter.bury(_BIG, b'{"type":"E","message":"%b"}' % (b"x" * LARGE), bench.count(100))
    everything = dead.Filter()
    listed = meter.longest(
        dead.page(_QUEUE, everything, "", 100, newest=True), dead.groups(_QUEUE, dead.Filter(task="x"))
    )
    moved = meter.longest(
        dead.retry(_QUEUE, everything, "r", bench.count(100) // 2, anew=True),
        dead.delete(_QUEUE, everything, "d", None),
    )
    return listed + moved


def _trim(meter: Meter, bench: Bench) -> list[tuple[float, str]]:
    """Trim 20,000 dead jobs."""
    meter.bury(_SMALL, b'{"type":"E","message":"m"}', bench.count(20_000))
    return meter.longest(*(dead.trim(_QUEUE, dead.Bounds(0, 0)) for _ in range(bench.count(40))))


def _cancel(meter: Meter, bench: Bench) -> list[tuple[float, str]]:
    """Look at, watch and cancel a job of 1 MiB that 20,000 ask for."""
    (id,) = meter.push(_BIG, 1, 3_600_000)
    for number in range(bench.count(20_000)):
        meter.run(leases.job_state(_QUEUE, id, f"lw:wake:asker-{number}"))
    return meter.longest(job_control.inspect(_QUEUE, id), job_control.cancel(_QUEUE, id, "lw"))


def _status(meter: Meter, bench: Bench) -> list[tuple[float, str]]:
    """Read the state of a queue of 1,000,000 jobs, and wake its workers."""
    meter.push(_SMALL, bench.count(1_000_000))
    return meter.longest(status.status(_QUEUE), limits.rules(_QUEUE), sessions.queue_head(_QUEUE))


def _forget_flows(meter: Meter, bench: Bench) -> list[tuple[float, str]]:
    """Lease a job while 5,000 flows are to be forgotten."""
    count = bench.count(5_000)
    flow = [FlowJob(_SMALL), FlowJob(_SMALL), FlowJob(_SMALL, (1, 2))]
    for number in range(count):
        meter.run(flows.push(_QUEUE, f"f{number}", flow, None, 1))
    for _ in range(2):
        held = meter.lease(count) + meter.lease(count) if _ == 0 else meter.lease(count)
        meter.run(leases.settle(_QUEUE, SESSION, [Outcome(job.id, job.token, "s", b"1") for job in held], 1))
    meter.push(_SMALL, 1)
    return meter.longest(*(leases.reserve(_QUEUE, SESSION, 1, f"r{number}", "") for number in range(2)))


def _cancel_flow(meter: Meter, bench: Bench) -> list[tuple[float, str]]:
    """Cancel a flow of 100 jobs of 1 MiB and 10,000 small ones."""
    large = [FlowJob(_BIG, (1,)) for _ in range(bench.count(100))]
    small = [FlowJob(_SMALL, (1,)) for _ in range(bench.count(10_000))]
    push = flows.push(_QUEUE, "f", [FlowJob(_SMALL), *large, *small], None)
    return meter.longest(push, flows.cancel(_QUEUE, "f"), leases.expire(_QUEUE, WINDOW_MS))


def _barrier(meter: Meter, bench: Bench) -> list[tuple[float, str]]:
    """Open a barrier for 10,000."""
    parties, places = bench.count(10_000), names.barrier("lw", "bench")
    found: list[tuple[float, str]] = []
    with meter.watching(found):
        pipeline = meter.client.pipeline(transaction=False)
        source = script("synchronizers/barrier_arrive").source
        for number in range(parties):
            pipeline.eval(source, len(places), *places, parties, f"r{number}", f"lw:wake:p{number % 100}")
        left = pipeline.execute()[-1][3]
        while left:
            left = meter.client.eval(source, len(places), *places, parties, f"r{parties - 1}", "")[3]
    return found


def _once(meter: Meter, bench: Bench) -> list[tuple[float, str]]:
    """End a run for which 100,000 of 1,000 processes wait."""
    key = names.once("lw", "bench")
    source = script("synchronizers/once_begin").source
    pipeline = meter.client.pipeline(transaction=False)
    for number in range(bench.count(100_000) + 1):
        pipeline.eval(source, 1, key, "o", f"r{number}", 60_000, 60_000, f"lw:wake:p{number % 1000}", 0, 0)
    fence = pipeline.execute()[0][1]
    return meter.longest(once.end(key, "o", fence, "d", b"null"))


_KINDS: tuple[Kind, ...] = (
    _push, _push_small, _reserve, _reserve_small, _reserve_due, _expire, _expire_small, _recover, _recover_small,
    _give_back, _settle, _fail, _search, _search_ended, _search_large, _clear, _dead, _trim, _cancel, _status,
    _forget_flows, _cancel_flow, _barrier, _once,
)  # fmt: skip
