"""Runners and worker processes are killed at random: no job is lost, and each repetition has a recorded reason."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest

from history import History
from processes import children, until, worker

JOBS = 150
KILLS = 12


@pytest.mark.timeout(180)
def test_jobs_succeed_and_repetitions_are_explained(forge: Any, own_url: str, apps: Path, history: History) -> None:
    chosen = random.Random(20261121)
    options = ("-p", "2", "-c", "4", "--runners", "2", "--lease", "60s")
    with worker("forge:lw", *options, url=own_url, folder=apps) as process:
        jobs = forge.brief.enqueue_many([(history.path,)] * JOBS)
        for kill in range(1, KILLS + 1):
            history.wait(kill * JOBS // (KILLS * 2))
            worker_processes = until(process.children, "there are worker processes")
            victims = (
                worker_processes if kill % 4 == 0 else [pid for child in worker_processes for pid in children(child)]
            )
            if victims:
                _kill(chosen.choice(victims))
        for job in jobs:
            job.result(60)
        status = until(lambda: s if not (s := forge.lw.queue().status()).running else None, "all is settled")
        assert status is not None
        process.send(signal.SIGTERM)
        assert process.wait() == 0
    assert (status.succeeded, status.dead, status.ready, status.scheduled) == (JOBS, 0, 0, 0)
    attempts: dict[str, list[int]] = {job.id: [] for job in jobs}
    for line in history.lines("ran"):
        attempts[line["id"]].append(line["attempt"])
    # each crash was counted before the job ran again
    assert all(sorted(set(found)) == found != [] for found in attempts.values())
    repeated = sum(map(len, attempts.values())) - JOBS
    # a delivery that ended before the job's first line leaves no trace in the history
    assert repeated <= status.failed + status.recovered


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
