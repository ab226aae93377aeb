"""Grants that a job does not release are released at its end, with a warning that names the job and the lock."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app_modules import load_app
from lockwork import Job, LockTimeout, Lockwork
from processes import Started, until, worker

AT_ONCE = 15.0
"""Seconds, of a lease of one minute, within which the next caller acquires the lock."""


@pytest.fixture
def leaky(own_url: str, apps: Path) -> Iterator[Any]:
    """The app's tasks, without a worker."""
    module = load_app(apps, "leaky", own_url)
    with module.lw:
        yield module


@pytest.fixture
def process(leaky: Any, own_url: str, apps: Path) -> Iterator[Started]:
    with worker("leaky:lw", "--runners", "1", "-c", "10", url=own_url, folder=apps) as process:
        yield process


def ended(job: Job[Any]) -> None:
    until(lambda: job.state() in ("done", "dead", "finished", "succeeded"), "the job has ended")


def warned(process: Started, *texts: str) -> None:
    until(lambda: any(all(text in line for text in texts) for line in process.errors.splitlines()), f"it logs {texts}")


@pytest.mark.parametrize(
    "task",
    [
        "takes",
        "atakes",
        "takes_in_a_process",
        "atakes_in_a_process",
        "takes_in_a_batch",
        "atakes_in_a_batch",
    ],
)
def test_lock_of_a_job_is_released_at_its_end(leaky: Any, process: Started, task: str) -> None:
    job = getattr(leaky, task).enqueue(*([1] if "batch" in task else []))
    job.result(30)
    leaky.lw.lock("x").acquire(wait=AT_ONCE).release()
    warned(process, "WARNING", f"job {job.id} ({task}) ended without releasing lock 'x'")


@pytest.mark.parametrize(
    "task",
    [
        "takes_a_permit",
        "atakes_a_permit",
        "fails_with_a_permit",
        "afails_with_a_permit",
        "fails_with_a_permit_in_a_batch",
    ],
)
def test_permit_of_a_job_is_released_at_its_end(leaky: Any, process: Started, task: str) -> None:
    job = getattr(leaky, task).enqueue(*([1] if "batch" in task else []))
    ended(job)
    leaky.lw.semaphore("x", 1).acquire(wait=AT_ONCE).release()
    warned(process, f"job {job.id} ({task}) ended without releasing semaphore 'x'")


@pytest.mark.parametrize("task", ["times_out", "atimes_out"])
def test_grants_of_a_job_that_timed_out_are_released(leaky: Any, process: Started, task: str) -> None:
    job = getattr(leaky, task).enqueue()
    ended(job)
    leaky.lw.lock("x").acquire(wait=AT_ONCE).release()
    leaky.lw.semaphore("x", 1).acquire(wait=AT_ONCE).release()
    warned(process, f"job {job.id} ({task})", "lock 'x'")
    warned(process, f"job {job.id} ({task})", "semaphore 'x'")


def test_grants_of_all_kinds_are_released(leaky: Any, process: Started) -> None:
    lw: Lockwork = leaky.lw
    job = leaky.takes_everything.enqueue()
    job.result(30)
    lw.multilock("x", "y").acquire(wait=AT_ONCE).release()
    lw.rwlock("x").write().acquire(wait=AT_ONCE).release()
    lw.lock("sticky").acquire(wait=AT_ONCE).release()
    lw.queue().lock("x").acquire(wait=AT_ONCE).release()
    for shown in ("multilock 'x, y'", "read lock 'x'", "lock 'sticky'", "lock 'x'"):
        warned(process, f"job {job.id} (takes_everything) ended without releasing {shown}")
    assert process.errors.count("ended without releasing") == 4


def test_lock_with_a_minimum_stays_taken_for_it(leaky: Any, process: Started) -> None:
    began = time.monotonic()
    leaky.takes_for_a_minimum.enqueue(1.5).result(30)
    leaky.lw.lock("x").acquire(wait=AT_ONCE).release()
    assert time.monotonic() - began >= 1.5


def test_referenced_permit_is_kept(leaky: Any, process: Started) -> None:
    leaky.keeps_its_permit.enqueue().result(30)
    with pytest.raises(LockTimeout):
        leaky.lw.semaphore("x", 1).acquire(wait=2)
    leaky.releases_the_kept.enqueue().result(30)
    leaky.lw.semaphore("x", 1).acquire(wait=AT_ONCE).release()
    assert "without releasing" not in process.errors


def test_asyncio_task_that_outlives_its_job_keeps_its_lock(leaky: Any, process: Started) -> None:
    leaky.starts_what_goes_on.enqueue().result(30)
    with pytest.raises(LockTimeout):
        leaky.lw.lock("x").acquire(wait=2)
    assert "without releasing" not in process.errors


def test_dependency_keeps_its_lock_until_the_job_has_ended(leaky: Any, process: Started) -> None:
    assert leaky.uses_a_dependency.enqueue().result(30) is False
    leaky.lw.lock("x").acquire(wait=AT_ONCE).release()
    assert "without releasing" not in process.errors


def test_dependencies_of_the_worker_keep_their_locks_between_jobs(leaky: Any, process: Started) -> None:
    for _ in range(3):
        names = leaky.uses_the_workers_locks.enqueue().result(30)
        assert len(names) == 2
    for name in names:
        assert leaky.lw.lock(name).try_acquire() is None
    process.send(signal.SIGTERM)
    assert process.wait() == 0
    for name in names:
        leaky.lw.lock(name).acquire(wait=AT_ONCE).release()
    assert "without releasing" not in process.errors
    assert "Traceback" not in process.errors
