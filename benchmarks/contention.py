"""What it costs to share one lock: how long processes wait, how even their shares are, how soon it changes hands."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterable
from math import isfinite
from time import perf_counter

import redis

from benchmarks.contenders import LIBRARIES, OWN, Race, race
from benchmarks.figures import Bench, Figure, jain, quantile

PROCESSES = 16
HOLD = 0.001
ROUNDS = 3


def sixteen(bench: Bench) -> list[Figure]:
    """Sixteen processes want the same lock all the time, and hold it for a millisecond."""
    seconds = bench.seconds(6, 0.5)
    runs = _runs(bench, PROCESSES, seconds)
    trip = _round_trip(bench)
    waits = _each(runs, min, lambda run: 1000 * quantile([turn.got - turn.asked for turn in run.all], 0.99))
    shares = _each(runs, max, lambda run: jain([len(turns) for turns in run.turns]))
    sent, ran = _each(runs, min, lambda run: run.sent), _each(runs, min, lambda run: run.ran)
    grants = _each(runs, max, lambda run: len(run.all) / seconds)
    name = f"{PROCESSES} processes, 1 ms hold"
    limit = PROCESSES * (1000 * HOLD + trip)
    return [
        _figure(f"{name}: wait p99", "ms", waits, limit, "16 x (hold + PING)", 30, less_is_better=True),
        _figure(f"{name}: Jain's index of grants", "", shares, 1, "all the same", 0.999),
        _figure(f"{name}: commands sent per grant", "", sent, 2, "to ask, to release", 4, less_is_better=True),
        _figure(f"{name}: all commands, in scripts too", "", ran, 4, "one in each script", None, less_is_better=True),
        _figure(f"{name}: grants", "/s", grants, 1000 / (1000 * HOLD + trip), "1 / (hold + PING)", None),
    ]


def hand_over(bench: Bench) -> list[Figure]:
    """From the call of release in one process to the end of the acquire of another that waits for it."""
    runs = _runs(bench, 2, bench.seconds(3, 0.5))
    medians = _each(runs, min, lambda run: 1000 * quantile(_gaps(run), 0.5))
    trip = _round_trip(bench)
    return [_figure("hand-over between two processes, p50", "ms", medians, trip, "PING", 1, less_is_better=True)]


def _gaps(run: Race) -> list[float]:
    """For who had to wait for the other: from the first release after it asked until it got the lock."""
    gaps = []
    for mine, theirs in (run.turns, run.turns[::-1]):
        ends = [turn.released for turn in theirs]
        for turn in mine:
            at = bisect(ends, turn.asked)
            if at < len(theirs) and theirs[at].got < turn.got:
                gaps.append(turn.got - theirs[at].released)
    return gaps


def _runs(bench: Bench, processes: int, seconds: float) -> dict[str, list[Race]]:
    """All libraries take turns."""
    runs: dict[str, list[Race]] = {library: [] for library in LIBRARIES}
    for _ in range(min(ROUNDS, bench.rounds)):
        for library, done in runs.items():
            done.append(race(library, bench.url, processes, seconds, HOLD))
    return runs


def _each(
    runs: dict[str, list[Race]], best: Callable[[Iterable[float]], float], value: Callable[[Race], float]
) -> dict[str, float]:
    """The best of each library's rounds."""
    return {library: best(value(run) for run in done) for library, done in runs.items()}


def _figure(
    name: str,
    unit: str,
    values: dict[str, float],
    floor: float,
    floor_is: str,
    goal: float | None,
    *,
    less_is_better: bool = False,
) -> Figure:
    others = tuple((library, value) for library, value in values.items() if library != OWN and isfinite(value))
    return Figure(name, unit, values[OWN], floor, floor_is, goal, less_is_better=less_is_better, others=others)


def _round_trip(bench: Bench) -> float:
    """Milliseconds for a PING."""
    times = []
    with redis.Redis.from_url(bench.url) as client:
        for _ in range(bench.count(2000)):
            began = perf_counter()
            client.ping()
            times.append(1000 * (perf_counter() - began))
    return quantile(times, 0.5)
