"""Bugs of other libraries with unique jobs: names that are never released, or released by the wrong job."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import redis

from clients import client_of
from history import History
from lockwork import JobFailed, Lockwork
from lockwork.protocol.keys import QueueKeys
from processes import until, worker

KEYS = QueueKeys("lw", "default")


def test_job_of_killed_worker_keeps_its_unique_name(
    uniques: Any, own_url: str, apps: Path, history: History, tmp_path: Path
) -> None:
    """sidekiq-unique-jobs #861, #691, #170: after a SIGKILL the lock stayed, and further enqueues were refused."""
    gate = str(tmp_path / "gate")
    with worker("uniques:lw", "--lease", "60s", url=own_url, folder=apps) as process:
        job = uniques.report.enqueue(history.path, "a", 1, gate)
        history.wait(1)
        (child,) = process.children()
        os.kill(child, signal.SIGKILL)
        history.wait(2)
        assert uniques.report.enqueue(history.path, "a", 2).id == job.id, "it runs again under its name"
        Path(gate).touch()
        assert job.result(30) == 1
        assert uniques.report.enqueue(history.path, "a", 3).result(30) == 3
    assert [line["version"] for line in history.lines("ran")] == [1, 1, 3]


def test_last_call_survives_killed_workers(uniques: Any, own_url: str, apps: Path, history: History) -> None:
    """With "replace" until the start, and a key: the last call of each name runs, and runs last."""
    names, calls, new = ("a", "b", "c"), 60, 0
    with worker("uniques:lw", "--concurrency", "8", url=own_url, folder=apps) as process:
        for version in range(1, calls + 1):
            new += sum(uniques.sync.enqueue(history.path, name, version).new for name in names)
            if version % 20 == 10:
                history.wait(1)
                for child in process.children():
                    os.kill(child, signal.SIGKILL)

        def settled() -> bool:
            status = uniques.lw.queue().status()
            return bool(status.ready + status.scheduled + status.running == 0)

        until(settled, "all ran")
    assert uniques.lw.queue().status().succeeded == new
    ran = history.lines("ran")
    assert len({line["pid"] for line in ran}) > 1, "some processes were killed"
    assert {name: [line["version"] for line in ran if line["name"] == name][-1] for name in names} == dict.fromkeys(
        names, calls
    )


def test_job_of_killed_machine_keeps_its_unique_name(
    uniques: Any, own_url: str, apps: Path, history: History, tmp_path: Path
) -> None:
    """The supervisor is killed too, and another worker recovers the session."""
    gate = str(tmp_path / "gate")
    with worker("uniques:lw", "--lease", "1s", url=own_url, folder=apps) as dead:
        job = uniques.report.enqueue(history.path, "a", 1, gate)
        history.wait(1)
        for pid in (dead.pid, *dead.children()):
            os.kill(pid, signal.SIGSTOP)
        for pid in (*dead.children(), dead.pid):
            os.kill(pid, signal.SIGKILL)
        Path(gate).touch()
        with worker("uniques:lw", "--lease", "1s", url=own_url, folder=apps):
            assert job.result(30) == 1
            assert uniques.report.enqueue(history.path, "a", 2).result(30) == 2


def test_dead_job_releases_its_unique_name(uniques: Any, own_url: str, apps: Path, history: History) -> None:
    """Sidekiq #3240, sidekiq-unique-jobs #339: a job without retries that failed kept its lock until a time-out."""
    with worker("uniques:lw", url=own_url, folder=apps):
        for version in (1, 2):
            job = uniques.fails.enqueue(history.path, "a", version)
            assert job.new
            with pytest.raises(JobFailed):
                job.result(30)


def test_unreadable_job_releases_its_unique_name(uniques: Any, own_url: str, apps: Path) -> None:
    """Laravel #49890, #54000: a job that could not be read never released its lock."""
    bad = uniques.wants_numbers.enqueue("none")
    with worker("uniques:lw", url=own_url, folder=apps):
        with pytest.raises(JobFailed):
            bad.result(30)
        assert uniques.wants_numbers.enqueue("none").new


def test_deleting_an_old_dead_job_keeps_the_name_reserved(lw: Lockwork, admin: redis.Redis) -> None:
    """BullMQ #3232: removing a failed job released the key of the job that came after it."""

    @lw.task(unique="report:{user}")
    def report(user: int) -> None: ...

    first = report.enqueue(1)
    admin.zadd(KEYS.dead, {first.id: 1})  # as a worker adds a dead job
    admin.zrem(KEYS.due, first.id)
    second = report.enqueue(1)
    assert second.new
    assert lw.queue().dead.delete(first.id)
    assert report.enqueue(1).id == second.id


def test_dead_job_is_not_retried_while_its_name_is_used(lw: Lockwork, admin: redis.Redis) -> None:
    """Other jobs of the same bulk retry are retried."""

    @lw.task(unique="report:{user}")
    def report(user: int) -> None: ...

    dead = [report.enqueue(user) for user in (1, 2)]
    for job in dead:
        admin.zadd(KEYS.dead, {job.id: 1})
        admin.zrem(KEYS.due, job.id)
    other = report.enqueue(1)
    assert lw.queue().dead.retry_all() == 1
    assert [job.state() for job in dead] == ["dead", "ready"]
    assert report.enqueue(2).id == dead[1].id
    assert not lw.queue().dead.retry(dead[0].id)
    assert other.cancel()
    assert lw.queue().dead.retry(dead[0].id)


def test_older_job_does_not_release_the_name_of_a_newer_one(
    uniques: Any, own_url: str, apps: Path, history: History, tmp_path: Path
) -> None:
    """Laravel, before its locks knew their dispatch: an attempt that ended late released the lock of a newer job."""
    gate = str(tmp_path / "gate")
    with worker("uniques:lw", "--concurrency", "4", url=own_url, folder=apps):
        first = uniques.sync.enqueue(history.path, "a", 1, gate)
        history.wait(1)
        second = uniques.sync.options(delay="1h").enqueue(history.path, "a", 2)
        Path(gate).touch()
        assert first.result(30) == 1
        assert uniques.sync.enqueue(history.path, "a", 3).id == second.id


def test_unique_jobs_leave_no_keys(uniques: Any, own_url: str, apps: Path, history: History) -> None:
    """BullMQ #4311: stray keys of jobs that had gone."""
    with worker("uniques:lw", url=own_url, folder=apps):
        jobs = [uniques.report.enqueue(history.path, f"n{number}") for number in range(50)]
        jobs += [uniques.sync.enqueue(history.path, f"n{number}") for number in range(50)]
        for job in jobs:
            job.result(30)
    with client_of(own_url) as admin:
        assert set(admin.hkeys(KEYS.groups)) == {b"#"}
