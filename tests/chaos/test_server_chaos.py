"""The server is killed again and again under load: which acknowledged calls survive depends on its persistence."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from chaos import tiers
from chaos.checkers import job_problems
from chaos.failovers import Failover
from chaos.outages import Load, Outcome, survive
from chaos.report import Report
from chaos.tiers import SEED
from mortal_servers import MortalServer

PIECE = "servers"
COUNTS = tiers.counts(PIECE)
LOAD = Load(
    COUNTS.jobs,
    COUNTS.server_kills,
    COUNTS.seconds,
    every=COUNTS.seconds / (COUNTS.server_kills + 0.5),
    turns=COUNTS.server_kills * 20,
)

pytestmark = pytest.mark.timeout(COUNTS.seconds * 20 + COUNTS.jobs / 20 + 300)


@dataclass
class Restarts:
    """Kills a server, and restarts it within a second."""

    server: MortalServer
    loses: bool
    """Whether a kill may lose acknowledged writes."""
    draw: random.Random

    def crash(self) -> bool:
        self.server.kill()
        threading.Event().wait(self.draw.uniform(0, 1))
        self.server.start()
        return not self.loses

    def by_hand(self) -> bool:
        return self.crash()

    def move(self) -> bool:
        return False

    def elections(self) -> list[Failover]:
        return []


def killed(fsync: Literal["always", "everysec"] | None, store: str, folder: Path, load: Load, loses: bool) -> Outcome:
    with MortalServer(folder / "mortal", fsync) as server:
        return survive(server.url, Restarts(server, loses, random.Random(SEED)), store, folder, load)


@pytest.fixture(autouse=True)
def long_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let jobs run and wait at each kill."""
    monkeypatch.setenv("CHAOS_LONGEST", "0.25")


@pytest.mark.parametrize("fsync", ["always", "everysec"])
def test_acknowledged_jobs_survive_server_kills(
    fsync: Literal["always", "everysec"], tmp_path: Path, chaos_url: str, report: Report
) -> None:
    outcome = killed(fsync, chaos_url, tmp_path, LOAD, loses=fsync == "everysec")
    _, unexplained = outcome.repetitions()
    problems = outcome.unexplained_losses() + unexplained + outcome.lock_problems()
    if fsync == "always":
        runs = [line for line in outcome.lines if line["event"] == "run"]
        problems += job_problems(runs, outcome.status, COUNTS.jobs)
    kills = len(outcome.failovers)
    report.run(outcome.work(), f"SIGKILL to the server, {kills} times, appendfsync {fsync}", outcome.found(), problems)
    assert problems == []
    assert len(outcome.confirmed) == COUNTS.jobs


def test_server_without_persistence_is_caught(tmp_path: Path, chaos_url: str, control: Report) -> None:
    """The check for `always` reports the jobs that a server without persistence loses."""
    load = Load(jobs=3000, faults=1, seconds=0, every=2)
    outcome = killed(None, chaos_url, tmp_path, load, loses=False)
    problems = outcome.unexplained_losses()
    control.control("a server without persistence, killed under the check for appendfsync always", problems)
    assert problems
