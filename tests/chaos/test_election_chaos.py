"""Leaders are killed, and frozen past their lease: somebody follows every time, and no two believe that they lead.

LOCKWORK_CHAOS_SECONDS makes the run longer; the seed of a run is printed with a failure.
"""

from __future__ import annotations

import random
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from chaos.checkers import Line, lock_problems
from chaos.test_chaos import APPS, SECONDS, SEED, send
from history import History
from lockwork.runtime.embedded import start_private
from processes import Started, started, stopped, until

CANDIDATES = 5
pytestmark = pytest.mark.timeout(SECONDS * 4 + 120)


def leader_problems(lines: Sequence[Line]) -> list[str]:
    """No two lead at once, no two leaderships share a fence, and each candidate is told of both ends by turns."""
    problems = lock_problems(lines, [], 0)
    told: dict[int, tuple[str, int]] = {}
    for line in (line for line in lines if line["event"] in ("enter", "loss")):
        event, fence = line["event"], line["fence"]
        before, old = told.get(line["pid"], ("loss", 0))
        if event == before or (event == "loss" and fence != old) or (event == "enter" and fence <= old):
            problems.append(f"process {line['pid']} was told of {event} {fence} after {before} {old}")
        told[line["pid"]] = event, fence
    return problems


class Reigns:
    """Some candidates, and what they write down."""

    def __init__(self, stack: ExitStack, url: str, folder: Path, kind: str) -> None:
        folder.mkdir()
        self._draw = random.Random(SEED)
        self.history = History(folder / "history")
        self._stack, self._url, self._folder = stack, url, folder
        self._command = [sys.executable, str(APPS / "candidates.py"), self.history.path, kind]
        self._candidates = [self._one_more() for _ in range(CANDIDATES)]
        self.history.wait(CANDIDATES, "ready")
        self.history.wait(1, "enter")

    def leaderships(self) -> int:
        return len(self.history.lines("enter"))

    def kill(self) -> None:
        """Kill the leader, and let another candidate come."""
        pid = self._stopped_leader()
        before = self.leaderships()
        victim = next(candidate for candidate in self._candidates if candidate.pid == pid)
        victim.end()
        self._candidates[self._candidates.index(victim)] = self._one_more()
        until(lambda: self.leaderships() > before, "somebody follows the killed leader")

    def freeze(self) -> None:
        """Freeze the leader until somebody has followed it, and let it go on as if nothing had been."""
        pid = self._stopped_leader()
        before = self.leaderships()
        until(lambda: self.leaderships() > before, "somebody follows the frozen leader")
        said = len(self._of(pid))
        send(pid, signal.SIGCONT)
        until(lambda: len(self._of(pid)) > said, "the frozen leader has looked around")

    def _stopped_leader(self) -> int:
        """Stop a process that leads, when it has led for a while."""
        enough = len(self.history.lines("held")) + self._draw.randint(5, 60)
        until(lambda: len(self.history.lines("held")) > enough, "somebody leads")
        while True:
            pid: int = self.history.lines("enter")[-1]["pid"]
            send(pid, signal.SIGSTOP)
            until(lambda pid=pid: stopped(pid), "it is stopped")  # type: ignore[misc]
            if self._of(pid)[-1]["event"] != "loss":
                return pid
            send(pid, signal.SIGCONT)

    def _of(self, pid: int) -> list[Line]:
        return [line for line in self.history.lines() if line["pid"] == pid]

    def _one_more(self) -> Started:
        return self._stack.enter_context(started(self._command, folder=self._folder, url=self._url))


@pytest.fixture
def election_url(tmp_path: Path) -> Iterator[str]:
    with start_private(tmp_path / "server") as server:
        yield server.url


def test_leaders(election_url: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        reigns = Reigns(stack, election_url, tmp_path / "reigns", "real")
        end = time.monotonic() + SECONDS / 4
        incidents = 0
        while incidents < 4 or time.monotonic() < end:
            (reigns.freeze if incidents % 2 else reigns.kill)()
            incidents += 1
        lines = reigns.history.lines()
    print(f"seed {SEED}: {incidents} incidents, {reigns.leaderships()} leaderships, {len(lines)} lines")
    assert leader_problems(lines) == []
    assert reigns.leaderships() > incidents, "each leader that was killed or frozen was followed"


def test_the_broken_election_is_caught(election_url: str, tmp_path: Path) -> None:
    """A leader that was frozen past its lease goes on, and keeps its follower's key alive as well."""
    with ExitStack() as stack:
        reigns = Reigns(stack, election_url, tmp_path / "reigns", "broken")
        reigns.freeze()
        problems = leader_problems(reigns.history.lines())
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
def test_the_checker_of_leaders(more: list[Line], problem: str) -> None:
    assert leader_problems(FINE) == []
    assert problem in leader_problems(FINE + more)[0]
