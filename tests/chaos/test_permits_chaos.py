"""Processes that share a semaphore and a read-write lock are killed and frozen past their lease at random.

They record their grants; at no time may more units be in use than exist (L8, L9), and in the end all units
are free.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from chaos import tiers
from chaos.checkers import Line
from chaos.players import Players, freeze
from chaos.report import Report
from chaos.tiers import SEED
from lockwork import Lockwork
from lockwork.protocol.permits.permits import ALL
from processes import alive, until

PIECE = "locks"
SECONDS = tiers.counts(PIECE).seconds
PERMITS = 3
_UNITS = {"sem": PERMITS, "rw": ALL}
pytestmark = pytest.mark.timeout(SECONDS * 4 + 120)


def permit_problems(lines: Sequence[Line]) -> list[str]:
    """Check that the units in use never exceed the total, and that fences are unique."""
    problems = []
    for thing, capacity in _UNITS.items():
        spans: dict[tuple[int, int], list[float]] = {}
        owners: dict[int, int] = {}
        for line in (line for line in lines if line["thing"] == thing):
            if owners.setdefault(line["fence"], line["pid"]) != line["pid"]:
                problems.append(f"fence {line['fence']} was granted twice")
            spans.setdefault((line["fence"], line["units"]), []).append(line["at"])
        # a process that recorded "held" held the grant since its start; without "held" it may have come too late
        sure = [(units, min(at), max(at)) for (_, units), at in spans.items() if len(at) > 1]
        moments = [(first, 1, units) for units, first, _ in sure] + [(last, 0, -units) for units, _, last in sure]
        used = 0
        for at, _, units in sorted(moments):
            used += units
            if used > capacity:
                problems.append(f"{used} of {capacity} units of {thing} were counted on at {at:.6f}")
    return problems


def shares(url: str, folder: Path, seconds: float) -> tuple[list[Line], int, int]:
    """Run eight processes and kill or freeze them at random; return the history and the counts of both."""
    draw, stops = random.Random(SEED), 0
    with ExitStack() as stack:
        players = Players(stack, url, folder, "shares.py", "real")
        until(lambda: len({line["pid"] for line in players.history.lines("enter")}) == 8, "each had a turn", 60)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            recent = [line["pid"] for line in players.history.lines("enter")[-4:]]
            if draw.random() < 0.7:
                chosen = set(recent[: draw.randint(1, 3)])
                freeze([*chosen], draw.choice((0.2, 1.5)))
                stops += len(chosen)
            else:
                players.replace(next(filter(alive, recent), players[0].pid))
        before = players.entered()
        until(lambda: players.entered() > before + 40, "they still take turns", 60)
    return players.history.lines(), players.kills, stops


def test_permits_are_never_exceeded_under_chaos(chaos_url: str, tmp_path: Path, report: Report) -> None:
    lines, kills, stops = shares(chaos_url, tmp_path / "shares", SECONDS / 2)
    problems = permit_problems(lines)
    report.run(
        f"{len({(line['thing'], line['fence']) for line in lines}):,} grants of a semaphore and a read-write lock",
        f"SIGKILL to {kills} processes, SIGSTOP to {stops}",
        f"{len(lines):,} records of a holder",
        problems,
    )
    assert problems == []
    assert {line["thing"] for line in lines} == {"sem", "rw"}
    with Lockwork(chaos_url) as lw:  # all processes were killed, some as holders
        lw.semaphore("gpu", PERMITS, units=PERMITS).acquire(wait=30).release()
        with lw.rwlock("doc", wait=30).write():
            assert lw.semaphore("gpu", PERMITS).available() == PERMITS


def test_broken_semaphore_is_caught(chaos_url: str, tmp_path: Path, control: Report) -> None:
    """The mutant's holder does not check its deadline after a freeze."""
    problems: list[str] = []
    with ExitStack() as stack:
        players = Players(stack, chaos_url, tmp_path / "shares", "shares.py", "broken")
        players.history.wait(4, "enter")
        for _ in range(20):  # the processes may be stopped between two grants
            freeze([line["pid"] for line in players.history.lines("enter")[-3:]], 1.5)
            before = players.entered()
            until(lambda before=before: players.entered() > before + 20, "the processes continue")  # type: ignore[misc]
            problems = permit_problems(players.history.lines())
            if problems:
                break
    control.control("a set of holders with deadlines, and holders that do not check theirs after a freeze", problems)
    assert any("were counted on" in problem for problem in problems), problems


def test_permit_problems_are_reported() -> None:
    def line(event: str, fence: int, units: int, at: float, pid: int = 1, thing: str = "rw") -> Line:
        return {"event": event, "thing": thing, "fence": fence, "units": units, "pid": pid, "at": at}

    fine = [line("enter", 1, ALL, 1), line("held", 1, ALL, 2), line("enter", 1, 1, 3), line("held", 1, 1, 5)]
    assert permit_problems([*fine, line("enter", 2, 1, 3.5), line("held", 2, 1, 6)]) == []
    assert "were counted on" in permit_problems([*fine, line("enter", 2, 1, 1.5), line("held", 2, 1, 6)])[0]
    assert "granted twice" in permit_problems([*fine, line("enter", 1, 1, 3.5, pid=2)])[0]
