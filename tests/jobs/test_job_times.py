"""Times of jobs: at, expires, reschedule, and retry from outside."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from history import History
from lockwork import ConfigError, JobFailed
from lockwork.errors import JobExpired
from processes import until, worker


def test_at_accepts_any_time_zone(own: Any) -> None:
    when = datetime.now(timezone(timedelta(hours=8))) + timedelta(hours=2)
    job = own.add.options(at=when).enqueue(1)
    view = job.inspect()
    assert view.state == "scheduled"
    assert view.due is not None
    assert abs(view.due - when) < timedelta(milliseconds=2)


def test_past_time_starts_the_job_at_once(handled: Any) -> None:
    assert handled.add.options(at=datetime.now(UTC) - timedelta(days=1)).enqueue(1).result(30) == 2


def test_job_that_does_not_start_in_time_expires(own: Any, own_url: str, apps: Path) -> None:
    """A waiter receives JobExpired without any worker, and a later worker does not run the job."""
    began = time.monotonic()
    job = own.add.options(expires="50ms").enqueue(1)
    with pytest.raises(JobExpired, match=f"job {job.id} in queue 'default' expired"):
        job.result(30)
    assert time.monotonic() - began >= 0.04
    assert job.state() == "expired"
    late = own.add.options(expires=datetime.now(UTC) + timedelta(seconds=0.05), delay="1h").enqueue(1)
    others = own.add.options(expires="10ms").enqueue_many([(number,) for number in range(1200)])
    time.sleep(0.06)
    with worker("handled:lw", url=own_url, folder=apps):
        assert own.add.enqueue(2).result(30) == 3
        for one in (late, others[0], others[-1]):
            assert one.state() == "expired"
    status = own.lw.queue().status()
    assert (status.expired, status.succeeded, status.ready, status.scheduled) == (1202, 1, 0, 0)


def test_started_job_does_not_expire(handled: Any, history: History) -> None:
    job = handled.hold.options(expires="20s").enqueue(history.path, 0.1)
    assert job.result(30) == 1
    assert job.inspect().expires is None


async def test_async_result_raises_job_expired(alw: Any) -> None:
    task = alw.task(_nothing)
    job = await task.options(expires="20ms").aenqueue()
    (other,) = await task.options(expires="20ms").aenqueue_many([()])
    for one in (job, other):
        with pytest.raises(JobExpired):
            await one.aresult(30)


def _nothing() -> None:
    """Do nothing; no worker runs it."""


def test_expires_option_applies_to_all_jobs_of_a_task(lw: Any) -> None:
    task = lw.task(expires="10m")(_nothing)
    view = task.enqueue().inspect()
    assert view.expires is not None
    assert abs(view.expires - datetime.now(UTC) - timedelta(minutes=10)) < timedelta(minutes=1)
    assert task.options(expires=None).enqueue().inspect().expires is None
    with pytest.raises(ConfigError, match="a job that is enqueued with something else cannot expire"):
        task.call()


def test_waiting_job_is_rescheduled(own: Any, own_url: str, apps: Path) -> None:
    early = own.add.options(delay="1h").enqueue(1)
    soon = own.add.options(delay="1h").enqueue(2)
    ready = own.add.enqueue(3)
    back = own.add.enqueue(4)
    assert early.reschedule(delay=0)
    assert soon.reschedule(at=datetime.now(UTC) + timedelta(seconds=0.1))
    assert ready.reschedule(delay="1h")
    assert back.reschedule(delay="1h")
    assert back.reschedule(delay=0)
    assert (ready.state(), back.state(), early.state()) == ("scheduled", "ready", "ready")
    status = own.lw.queue().status()
    assert status.ready in (2, 3), "a job may become due meanwhile"
    assert status.ready + status.scheduled == 4
    with worker("handled:lw", url=own_url, folder=apps):
        assert [job.result(30) for job in (early, soon, back)] == [2, 3, 5]
        assert ready.state() == "scheduled"
        assert ready.reschedule(delay="10ms")
        assert ready.result(30) == 4
    status = own.lw.queue().status()
    assert (status.ready, status.scheduled, status.succeeded, status.enqueued) == (0, 0, 4, 4)


async def test_async_reschedule_moves_a_job(alw: Any) -> None:
    job = await alw.task(_nothing).aenqueue()
    assert await job.areschedule(delay="1h")
    assert await job.astate() == "scheduled"
    assert not await alw.job("nobody").areschedule(delay="1h")


def test_running_and_ended_jobs_cannot_be_rescheduled(handled: Any, history: History) -> None:
    running = handled.hold.enqueue(history.path)
    history.wait(1)
    assert not running.reschedule(delay="1h")
    running.cancel()
    done = handled.add.enqueue(1)
    assert done.result(30) == 2
    assert not done.reschedule(delay="1h")
    assert not handled.lw.job("nobody").reschedule(delay="1h")
    with pytest.raises(ConfigError, match="say when"):
        done.reschedule()
    with pytest.raises(ConfigError, match="not both"):
        done.reschedule(delay=1, at=datetime.now(UTC))


def test_retried_dead_job_has_all_its_attempts(handled: Any, history: History, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job = handled.fails_unless.enqueue(history.path, str(gate))
    with pytest.raises(JobFailed, match="ValueError: there is no gate"):
        job.result(30)
    view = job.inspect()
    assert (view.state, view.attempts, view.task) == ("dead", 2, "fails_unless")
    assert view.error is not None
    assert (view.error.type, view.error.text) == ("ValueError", "there is no gate")
    assert 'raise ValueError("there is no gate")' in view.error.traceback
    assert job.error() == view.error
    dead = handled.lw.queue().status().dead
    gate.touch()
    assert job.retry()
    assert job.result(30) == "came through"
    assert [line["attempt"] for line in history.lines("ran")] == [1, 2, 1]
    assert handled.lw.queue().status().dead == dead - 1
    assert job.error() is None
    assert not job.retry()


def test_cancelled_and_expired_jobs_can_be_retried(own: Any, own_url: str, apps: Path) -> None:
    cancelled, later, gone = own.add.enqueue(1), own.add.options(delay="1h").enqueue(2), own.add.enqueue(3)
    expired = own.add.options(expires="10ms").enqueue(4)
    for job in (cancelled, later, gone):
        assert job.cancel()
    with pytest.raises(JobExpired):
        expired.result(30)
    assert cancelled.retry()
    assert not cancelled.retry(), "the job is already waiting"
    assert later.retry(delay="50ms")
    assert expired.retry()
    status = own.lw.queue().status()
    assert status.ready in (2, 3), "a job may become due meanwhile"
    assert (status.ready + status.scheduled, status.revived) == (3, 3)
    with worker("handled:lw", url=own_url, folder=apps):
        assert [job.result(30) for job in (cancelled, later, expired)] == [2, 3, 5]
    status = own.lw.queue().status()
    assert (status.ready, status.scheduled, status.succeeded) == (0, 0, 3)
    assert gone.state() == "cancelled"


def test_job_cancelled_during_its_run_can_be_retried(handled: Any, history: History) -> None:
    job = handled.hold.enqueue(history.path, 60)
    history.wait(1)
    job.cancel()
    until(lambda: job.state() == "cancelled", "it is cancelled")
    assert job.retry()
    assert [line["attempt"] for line in history.wait(2)] == [1, 1]
    fences = [line["fence"] for line in history.lines("ran")]
    assert fences[0] < fences[1]
    assert job.cancel()
    until(lambda: job.state() == "cancelled", "it is cancelled again")
