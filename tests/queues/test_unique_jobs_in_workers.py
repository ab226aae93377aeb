"""Unique jobs with real workers: unique names during and after the run of a job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from history import History
from lockwork.errors import JobCancelled
from processes import worker


def test_running_job_keeps_its_unique_name(
    uniques: Any, own_url: str, apps: Path, history: History, tmp_path: Path
) -> None:
    """The name is free when the job ends. In arq (#432, #222) it stayed until the result expired."""
    gate = str(tmp_path / "gate")
    with worker("uniques:lw", url=own_url, folder=apps):
        job = uniques.report.enqueue(history.path, "a", 1, gate)
        history.wait(1)
        again = uniques.report.enqueue(history.path, "a", 2, gate)
        assert (again.new, again.id) == (False, job.id)
        Path(gate).touch()
        assert again.result(30) == 1, "all callers receive the result"
        assert uniques.report.enqueue(history.path, "a", 3).result(30) == 3
        assert job.result(30) == 1
    assert [line["version"] for line in history.lines("ran")] == [1, 3]


def test_last_call_during_a_run_runs_afterwards(
    uniques: Any, own_url: str, apps: Path, history: History, tmp_path: Path
) -> None:
    """Calls between the running and the last call never run."""
    gate = str(tmp_path / "gate")
    with worker("uniques:lw", "--concurrency", "4", url=own_url, folder=apps):
        first = uniques.sync.enqueue(history.path, "a", 1, gate)
        history.wait(1)
        later = [uniques.sync.enqueue(history.path, "a", version) for version in (2, 3, 4)]
        assert [job.arrival for job in later] == ["new", "replaced", "replaced"]
        assert len({job.id for job in later} - {first.id}) == 1
        Path(gate).touch()
        assert [job.result(30) for job in later] == [4, 4, 4]
    assert [line["version"] for line in history.lines("ran")] == [1, 4]


def test_debounced_job_runs_once_with_the_last_call(uniques: Any, own_url: str, apps: Path, history: History) -> None:
    with worker("uniques:lw", url=own_url, folder=apps):
        jobs = [uniques.index.enqueue(history.path, "a", version) for version in range(20)]
        assert jobs[-1].result(30) == 19
        assert jobs[0].id == jobs[-1].id
    assert [line["version"] for line in history.lines("ran")] == [19]


def test_cancelled_job_releases_its_unique_name(
    uniques: Any, own_url: str, apps: Path, history: History, tmp_path: Path
) -> None:
    with worker("uniques:lw", url=own_url, folder=apps):
        job = uniques.report.enqueue(history.path, "a", 1, str(tmp_path / "never"))
        history.wait(1)
        assert job.cancel()
        with pytest.raises(JobCancelled):
            job.result(30)
        assert uniques.report.enqueue(history.path, "a", 2).result(30) == 2
