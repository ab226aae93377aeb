"""What a search costs the server: jobs of all states, tasks, tags, keys and errors, and one filter after the other."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

import redis

from benchmarks.bounds import SESSION, WINDOW_MS, Meter
from benchmarks.figures import Bench, Figure, quantile
from lockwork import Lockwork
from lockwork.ids import job_suffix, new_ids
from lockwork.jobs import search as filters
from lockwork.jobs.search import JobFilter
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import enqueue, leases, record_header
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.leases import Outcome
from lockwork.protocol.search.search import StoredPage, search

JOBS = 1_000_000
STEP_MS, STEP_RECORDS = 5.0, 1000
"""What one call may cost the server."""
_QUEUE = QueueKeys("lw", "search")
_PAGE, _BUDGET, _ROUNDS = 50, 20_000, 3
_HOUR_MS = 3_600_000
_RARE = 10
"""Jobs that the texts match; the oldest of each state, so that a search meets them last."""
_FILTERS: tuple[tuple[str, JobFilter], ...] = (
    ("state", {"state": "ready"}),
    ("state", {"state": "scheduled"}),
    ("state", {"state": "running"}),
    ("state", {"state": "dead"}),
    ("state", {"state": "succeeded"}),
    ("state", {"state": "cancelled"}),
    ("key", {"key": "k7"}),
    ("age", {"state": "done", "since": "1h", "until": 0.001}),
    ("enqueued", {"state": "ready", "until": "1h"}),
    ("task", {"task": "rare_task"}),
    ("tag", {"tag": "rare_tag"}),
    ("argument", {"arg": "needle"}),
    ("error text", {"error": "rare error"}),
    ("free text", {"text": "needle"}),
)
_INDEXED = ("state", "key", "age")
"""Their first page is read; of the others, all pages."""


def searching(bench: Bench) -> list[Figure]:
    """Fill a queue; per filter, compare the slowest call's server time with reading as many records at once."""
    with Lockwork(bench.url) as lw, redis.Redis.from_url(bench.url) as client:
        client.config_set("slowlog-max-len", 200_000)
        client.config_set("slowlog-log-slower-than", -1)
        client.flushall()
        meter = Meter(lw, client)
        count = _fill(meter, bench.count(JOBS))
        floor = _floor(client)
        figures = [_figure(meter, name, wanted, count, floor, min(bench.rounds, _ROUNDS)) for name, wanted in _FILTERS]
        client.config_resetstat()
        client.config_set("slowlog-max-len", 128)
        client.config_set("slowlog-log-slower-than", 10_000)
        client.flushall()
    return figures


def _figure(meter: Meter, name: str, matching: JobFilter, count: int, floor: float, rounds: int) -> Figure:
    walks = [_walk(meter, matching, whole=name not in _INDEXED) for _ in range(rounds)]
    # other programs interrupt the server, too: the round whose longest call is the shortest has the least of that
    best = min(walks, key=lambda walk: max(walk.times))
    times = best.times
    shown = ", ".join(f"{option}={value}" for option, value in matching.items())
    title = (
        f"{name} ({shown}) of {count:,} jobs: {best.found} found, {len(best.looked):,} calls, "
        f"{max(best.looked):,} records each at most, {best.seconds:.2f} s; server time: median "
        f"{median(times):.2f} ms, p99 {quantile(times, 0.99):.2f} ms, the longest call"
    )
    assert max(best.looked) <= STEP_RECORDS, title
    return Figure(title, "ms", max(times), floor, "HMGET of 400 records", STEP_MS, less_is_better=True)


@dataclass(frozen=True, slots=True)
class _Walk:
    """One search: ms of each call, records that each searching call read, jobs found, and seconds in all."""

    times: list[float]
    looked: list[int]
    found: int
    seconds: float


def _walk(meter: Meter, matching: JobFilter, *, whole: bool) -> _Walk:
    """Search the first page, or all pages."""
    wanted = filters.read_filter(matching, True, {})
    calls: list[tuple[float, str]] = []
    looked: list[int] = []
    found, after = 0, None
    # The server's next calls return the memory of the log that was read before; the search shall not pay for that.
    for _ in range(20):
        meter.run(search([_QUEUE], wanted, None, _PAGE, 1))
    began = perf_counter()
    with meter.watching(calls):
        while True:
            page = meter.run(_counted(search([_QUEUE], wanted, after, _PAGE, _BUDGET), looked))
            found += len(page.jobs)
            after = page.position
            if after is None or not whole:
                break
        seconds = perf_counter() - began
    return _Walk([time for time, _ in calls], looked, found, seconds)


def _counted(protocol: Generator[Any, Any, StoredPage], looked: list[int]) -> Generator[Any, Any, StoredPage]:
    """Run the protocol, and note how many records each of its searching calls read."""
    reply = None
    while True:
        try:
            effect = protocol.send(reply)
        except StopIteration as end:
            page: StoredPage = end.value
            return page
        reply = yield effect
        if getattr(effect, "script", None) is not None and effect.script.name == "search/page":
            looked.append(int(reply[3]))


def _fill(meter: Meter, count: int) -> int:
    """Put jobs into all places; a tenth each dead, ended, scheduled, and due with a key; returns how many are there."""
    tenth = count // 10
    meter.run(leases.beat(_QUEUE, {SESSION: True}, _HOUR_MS, 5.0))
    meter.client.hset(_QUEUE.stats, "history", str(JOBS))
    for kind, ended in (("d", tenth), ("c", tenth - tenth // 10), ("s", tenth // 10)):
        _push(meter, _records(ended))
        _end(meter, kind)
    _push(meter, _records(tenth), delay=_HOUR_MS)
    _push(meter, _records(tenth, keys=100))
    _push(meter, _records(count - 4 * tenth))
    meter.run(leases.reserve(_QUEUE, SESSION, 100, "running", ""))
    status = meter.lw.queue("search").status()
    ended = meter.client.zcard(_QUEUE.history_order)
    return status.ready + status.scheduled + status.running + status.dead + int(ended)


def _records(count: int, keys: int = 0) -> Iterator[tuple[str, bytes]]:
    """The suffix of each id, and the record."""
    for number in range(count):
        rare = number < _RARE
        head = record_header.head(1, 5, f"k{number % keys}" if keys else "")
        task, tag = ("rare_task", "rare_tag") if rare else (f"task_{number % 20}", f"customer-{number % 1000}")
        args = ["needle" if rare else f"user{number}@example.org", number]
        body = json.dumps([task, args, {}, {"tags": [tag]}], separators=(",", ":"))
        yield job_suffix(task, [tag], f"k{number % keys}" if keys else None), head + body.encode()


def _push(meter: Meter, records: Iterator[tuple[str, bytes]], delay: int = 0) -> None:
    some = list(records)
    ids = new_ids(len(some))
    for at in range(0, len(some), 1000):
        pairs = zip(ids[at : at + 1000], some[at : at + 1000], strict=True)
        meter.run(enqueue.push(_QUEUE, [NewJob(id + suffix, record, delay) for id, (suffix, record) in pairs]))


def _end(meter: Meter, kind: str) -> None:
    """Let all jobs that wait end."""
    ended = 0
    while held := meter.run(leases.reserve(_QUEUE, SESSION, 500, f"{kind}{ended}", "")).jobs:
        ends = [Outcome(job.id, job.token, kind, _error(ended + at)) for at, job in enumerate(held)]  # type: ignore[arg-type]
        meter.run(leases.settle(_QUEUE, SESSION, ends, WINDOW_MS))
        ended += len(held)


def _error(number: int) -> bytes:
    text = "rare error" if number < _RARE else f"order {number} is unknown"
    return json.dumps({"type": "LookupError", "message": text, "traceback": "line 1"}, separators=(",", ":")).encode()


def _floor(client: redis.Redis) -> float:
    """Milliseconds that the server takes to read 400 records."""
    ids = [key for key, _ in zip(client.hscan_iter(_QUEUE.jobs, count=400), range(400), strict=False)]
    client.config_resetstat()
    for _ in range(100):
        client.hmget(_QUEUE.jobs, [id for id, _ in ids])
    used = client.info("commandstats")["cmdstat_hmget"]
    return float(used["usec_per_call"]) / 1000
