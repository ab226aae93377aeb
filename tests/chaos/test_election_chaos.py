"""Leaders are killed, and frozen past their lease: a new leader follows each time, and leaders never overlap."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from chaos import tiers
from chaos.checkers import Line, lock_problems
from chaos.players import Players
from chaos.report import Report
from chaos.tiers import SEED
from processes import until

PIECE = "locks"
SECONDS = tiers.counts(PIECE).seconds
CANDIDATES = 5
pytestmark = pytest.mark.timeout(SECONDS * 4 + 120)


def leader_problems(lines: Sequence[Line]) -> list[str]:
    """Check that leaders never overlap, that fences are unique, and that candidates receive both events alternately."""
    problems = lock_problems(lines, [], 0)
    received: dict[int, tuple[str, int]] = {}
    for line in (line for line in lines if line["event"] in ("enter", "loss")):
        event, fence = line["event"], line["fence"]
        before, old = received.get(line["pid"], ("loss", 0))
        if event == before or (event == "loss" and fence != old) or (event == "enter" and fence <= old):
            problems.append(f"process {line['pid']} was told of {event} {fence} after {before} {old}")
        received[line["pid"]] = event, fence
    return problems


class Reigns:
    """Candidates, and faults of their leaders."""

    def __init__(self, stack: ExitStack, url: str, folder: Path, kind: str) -> None:
        self._draw = random.Random(SEED)
        self.candidates = Players(stack, url, folder, "candidates.py", kind, CANDIDATES)
        self.history = self.candidates.history
        self.history.wait(CANDIDATES, "ready")
        self.history.wait(1, "enter")

    def kill(self) -> None:
        """Kill the leader, and start another candidate."""
        pid = self._stopped_leader()
        before = self.candidates.entered()
        self.candidates.replace(pid)
        until(lambda: self.candidates.entered() > before, "another process leads")

    def freeze(self) -> None:
        """Freeze the leader until another process leads, and let it continue."""
        self.candidates.let_go_on(self._stopped_leader())

    def _stopped_leader(self) -> int:
        """Stop a process that has led for some time."""
        self.history.wait(len(self.history.lines("held")) + self._draw.randint(5, 60), "held")
        return self.candidates.stop_holder("loss")


def test_leaders_never_overlap_under_chaos(chaos_url: str, tmp_path: Path, report: Report) -> None:
    with ExitStack() as stack:
        reigns = Reigns(stack, chaos_url, tmp_path / "reigns", "real")
        end = time.monotonic() + SECONDS / 4
        incidents = 0
        while incidents < 4 or time.monotonic() < end:
            (reigns.freeze if incidents % 2 else reigns.kill)()
            incidents += 1
        lines = reigns.history.lines()
    problems = leader_problems(lines)
    report.run(
        f"{reigns.candidates.entered()} leaderships among {CANDIDATES} candidates",
        f"SIGKILL to {reigns.candidates.kills} leaders, SIGSTOP to {incidents - reigns.candidates.kills}",
        f"{len(lines):,} records of a leader",
        problems,
    )
    assert problems == []
    assert reigns.candidates.entered() > incidents, "each leader that was killed or frozen was followed"


def test_broken_election_is_caught(chaos_url: str, tmp_path: Path, control: Report) -> None:
    """A leader that was frozen past its lease renews the key of its successor."""
    with ExitStack() as stack:
        reigns = Reigns(stack, chaos_url, tmp_path / "reigns", "broken")
        reigns.freeze()
        problems = leader_problems(reigns.history.lines())
    control.control("a leader frozen past its lease renews the key of its successor", problems)
    assert any("believed in its lock" in problem for problem in problems), problems


def _line(at: float, event: str, fence: int, pid: int = 1) -> Line:
    return {"at": at, "event": event, "fence": fence, "pid": pid}


FINE = [_line(1, "enter", 5), _line(2, "held", 5), _line(3, "loss", 5), _line(4, "enter", 6, 2), _line(5, "held", 6, 2)]


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ([_line(6, "held", 5)], "1 times a holder believed"),
        ([_line(6, "enter", 6)], "fence 6 was granted twice"),
        ([_line(6, "enter", 7, 2)], "process 2 was told of enter 7 after enter 6"),
        ([_line(6, "loss", 5)], "process 1 was told of loss 5 after loss 5"),
        ([_line(6, "enter", 4)], "process 1 was told of enter 4 after loss 5"),
    ],
)
def test_leader_problems_are_reported(more: list[Line], problem: str) -> None:
    assert leader_problems(FINE) == []
    assert problem in leader_problems(FINE + more)[0]
