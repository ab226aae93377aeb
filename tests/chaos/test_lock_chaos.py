"""Lock holders are killed and frozen at random while they work: holders never overlap, and no write is lost."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis

from chaos import tiers
from chaos.checkers import Line, lock_problems
from chaos.players import Players, freeze
from chaos.report import Report
from chaos.tiers import SEED
from processes import until

PIECE = "locks"
COUNTS = tiers.counts(PIECE)
_SLOWEST = 300
"""Cycles a second, on the busiest machine."""

pytestmark = pytest.mark.timeout(COUNTS.seconds * 4 + COUNTS.cycles / _SLOWEST + 120)


def trouble(players: Players, end: str, enough: Callable[[int], bool]) -> int:
    """Kill or freeze players at random until it is `enough` after this many stops; return the number of stops.

    Most frozen players hold the lock, and have not recorded `end`.
    """
    draw, history = random.Random(SEED), players.history
    until(lambda: len({line["pid"] for line in history.lines("enter")}) == 8, "every process acquired the lock", 60)
    stops = 0
    while not enough(stops):
        victim = players[draw.randrange(8)].pid
        if draw.random() < 0.6:
            pid = players.stop_holder(end) if draw.random() < 0.8 else victim
            freeze([pid], draw.choice((0.2, 1.5)))
            stops += 1
        else:
            players.replace(victim)
            threading.Event().wait(draw.uniform(0, 0.5))
    before = players.entered()
    until(lambda: players.entered() > before + 20, "the lock is still acquired", 60)
    return stops


def stored(url: str) -> tuple[list[int], int]:
    """Return the fences of the writes that the store accepted, and its value."""
    with redis.Redis.from_url(url, decode_responses=True) as client:
        accepted = [int(fence) for fence in client.lrange("accepted", 0, -1)]
        return accepted, int(client.hget("store", "value") or 0)


def test_locks_stay_exclusive_under_chaos(chaos_url: str, tmp_path: Path, report: Report) -> None:
    end = time.monotonic() + COUNTS.seconds / 2
    with ExitStack() as stack:
        players = Players(stack, chaos_url, tmp_path / "turns", "turns.py", "real")
        stops = trouble(players, "exit", lambda _: time.monotonic() > end)
        lines = players.history.lines()
    accepted, value = stored(chaos_url)
    problems = lock_problems(lines, accepted, value)
    entered = sum(line["event"] == "enter" for line in lines)
    report.run(
        f"{entered:,} grants of one lock, {len(accepted):,} fenced writes",
        f"SIGKILL to {players.kills} processes, SIGSTOP to {stops}",
        f"value of the store {value:,}",
        problems,
    )
    assert problems == []
    assert len(accepted) > 20


def cycle_problems(lines: Sequence[Line]) -> list[str]:
    """Check that holders of each lock never overlap, and that fences are unique."""
    of_lock: dict[int, list[Line]] = defaultdict(list)
    for line in lines:
        of_lock[line["lock"]].append(line)
    return [f"lock {number}: {text}" for number, its in of_lock.items() for text in lock_problems(its, [], 0)]


def test_many_locks_stay_exclusive_under_chaos(chaos_url: str, tmp_path: Path, report: Report) -> None:
    with ExitStack() as stack:
        players = Players(stack, chaos_url, tmp_path / "cycles", "cycles.py", "real")

        def enough(stops: int) -> bool:
            threading.Event().wait(0.5)  # all processes work between two faults
            done = stops >= COUNTS.stops and players.kills >= COUNTS.kills
            return done and players.entered() >= COUNTS.cycles

        stops = trouble(players, "held", enough)
        lines = players.history.lines()
    problems = cycle_problems(lines)
    entered, held = (sum(line["event"] == event for line in lines) for event in ("enter", "held"))
    report.run(
        f"{entered:,} cycles of 64 locks in 8 processes",
        f"SIGKILL to {players.kills} processes, SIGSTOP to {stops}",
        f"{entered - held} grants ended while their holder was killed or frozen",
        problems,
    )
    assert problems == []
    assert held >= COUNTS.cycles / 2


def caught(players: Players, end: str, problems: Callable[[], list[str]]) -> list[str]:
    """Freeze holders past their lease until there is a problem; a process may be stopped just before its end."""
    players.history.wait(1, "enter")
    for _ in range(20):
        players.let_go_on(players.stop_holder(end))
        if found := problems():
            return found
    return []


def test_lock_without_an_owner_is_caught(chaos_url: str, tmp_path: Path, control: Report) -> None:
    with ExitStack() as stack:
        players = Players(stack, chaos_url, tmp_path / "turns", "turns.py", "broken")
        problems = caught(players, "exit", lambda: lock_problems(players.history.lines(), [], 0))
    control.control("a bare SET NX and DEL: a process frozen past its lease deletes the lock of the next", problems)
    assert any("believed in its lock" in problem for problem in problems), problems


def test_store_that_ignores_fences_is_caught(chaos_url: str, tmp_path: Path, control: Report) -> None:
    def problems() -> list[str]:
        return [text for text in lock_problems([], *stored(chaos_url)) if "old fence" in text]

    with ExitStack() as stack:
        players = Players(stack, chaos_url, tmp_path / "turns", "turns.py", "unfenced")
        found = caught(players, "exit", problems)
    control.control("the real lock, and a store that accepts the write of a holder frozen past its lease", found)
    assert found


def test_holder_that_does_not_check_its_lease_is_caught(chaos_url: str, tmp_path: Path, control: Report) -> None:
    with ExitStack() as stack:
        players = Players(stack, chaos_url, tmp_path / "cycles", "cycles.py", "careless")
        problems = caught(players, "held", lambda: cycle_problems(players.history.lines()))
    control.control("the real lock with a lease of 1 s, and holders that rely on it after a freeze", problems)
    assert any("believed in its lock" in problem for problem in problems), problems
