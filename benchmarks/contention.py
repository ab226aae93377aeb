"""What it costs to share one lock: how long processes wait, how evenly they are served, and how soon it changes hands."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import redis

from benchmarks.contenders import LIBRARIES, OWN, Race, race
from benchmarks.figures import Bench, Figure, jain, quantile

PROCESSES = 16
HOLD = 0.001
ROUNDS = 3


def sixteen(bench: Bench) -> list[Figure]:
    """Sixteen processes want the same lock all the time, and hold it for a millisecond."""
    runs = _runs(bench, PROCESSES, bench.seconds(6, 1.5))
    trip = _round_trip(bench)
    waits = _each(runs, lambda run: 1000 * quantile([turn.got - turn.asked for all in run.turns for turn in all], 0.99))
    shares = _each(runs, lambda run: -jain([len(turns) for turns in run.turns]))
    sent, ran = _each(runs, lambda run: run.sent), _each(runs, lambda run: run.ran)
    grants = _each(runs, lambda run: -sum(len(turns) for turns in run.turns) / bench.seconds(6, 1.5))
    name = f"{PROCESSES} processes, 1 ms hold"
    limit = PROCESSES * (1 + trip)
    return [
        _figure(f"{name}: wait p99", "ms", waits, limit, "16 x (hold + PING)", 30, less_is_better=True),
        _figure(f"{name}: Jain's index of grants", "", _negative(shares), 1, "all the same", 0.999),
        _figure(f"{name}: commands sent per grant", "", sent, 2, "to ask, to release", 4, less_is_better=True),
        _figure(f"{name}: with those inside scripts", "", ran, 4, "a script each", None, less_is_better=True),
        _figure(f"{name}: grants", "/s", _negative(grants), 1000 / (1 + trip), "1 / (hold + PING)", None),
    ]


def hand_over(bench: Bench) -> list[Figure]:
    """From the call of release in one process to the end of the acquire of another that waits for it."""
    runs = _runs(bench, 2, bench.seconds(3, 1))
    medians = _each(runs, lambda run: 1000 * quantile(_gaps(run), 0.5))
    return [
        _figure("hand-over between two processes, p50", "ms", medians, _round_trip(bench), "PING", 1, less_is_better=True)
    ]


def _gaps(run: Race) -> list[float]:
    """Between one holder's release and the other's start, where the other was already waiting."""
    order = sorted((turn.got, turn.asked, turn.released, who) for who, turns in enumerate(run.turns) for turn in turns)
    return [
        later[0] - earlier[2]
        for earlier, later in zip(order, order[1:], strict=False)
        if earlier[3] != later[3] and later[1] < earlier[2]
    ]


def _runs(bench: Bench, processes: int, seconds: float) -> dict[str, list[Race]]:
    """All libraries take turns."""
    runs: dict[str, list[Race]] = {library: [] for library in LIBRARIES}
    for _ in range(min(ROUNDS, bench.rounds)):
        for library, done in runs.items():
            done.append(race(library, bench.url, processes, seconds, HOLD))
    return runs


def _each(runs: dict[str, list[Race]], value: Callable[[Race], float]) -> dict[str, float]:
    """The lowest of each library's rounds."""
    return {library: min(value(run) for run in done) for library, done in runs.items()}


def _negative(values: dict[str, float]) -> dict[str, float]:
    return {library: -value for library, value in values.items()}


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
    others = tuple((library, value) for library, value in values.items() if library != OWN)
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
