"""Cancellation of waiting and running jobs, with a real worker."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from clients import client_of
from history import History
from lockwork import JobFailed, ResultUnavailable
from lockwork.errors import JobCancelled
from lockwork.protocol.keys import QueueKeys
from processes import until, worker


def test_cancelled_waiting_job_is_removed(own: Any, history: History) -> None:
    job = own.hold.enqueue(history.path)
    later = own.hold.options(delay="1h").enqueue(history.path)
    assert own.lw.queue().status().ready == 1
    assert job.cancel()
    assert later.cancel()
    status = own.lw.queue().status()
    assert (status.ready, status.scheduled, status.cancelled) == (0, 0, 2)
    for one in (job, later):
        assert one.state() == "cancelled"
        assert one.inspect().attempts == 0
        with pytest.raises(JobCancelled, match=f"job {one.id} in queue 'default' was cancelled"):
            one.result(1)
        with pytest.raises(JobFailed):
            one.result(0)
        assert one.cancel()  # a repetition has no effect


def test_cancelled_jobs_do_not_occupy_worker_slots(own: Any, own_url: str, apps: Path, history: History) -> None:
    """Workers skip entries of cancelled jobs in the ready list."""
    jobs = own.add.enqueue_many([(number,) for number in range(3000)])
    for job in jobs[:2999]:
        assert job.cancel()
    assert own.lw.queue().status().ready == 1
    with worker("handled:lw", "--concurrency", "2", url=own_url, folder=apps):
        assert jobs[2999].result(30) == 3000
    status = own.lw.queue().status()
    assert (status.ready, status.cancelled, status.succeeded) == (0, 2999, 1)


@pytest.mark.parametrize("kind", ["hold", "hold_in_a_thread"])
def test_cancelled_running_job_is_stopped_at_once(handled: Any, history: History, kind: str) -> None:
    """taskiq#183 and #305: a running job cannot be cancelled."""
    job = getattr(handled, kind).enqueue(history.path)
    history.wait(1)
    before = handled.lw.queue().status()
    assert job.cancel()
    with pytest.raises(JobCancelled):
        job.result(30)
    ended = history.lines("cancelled" if kind == "hold" else "interrupted")
    assert len(ended) == 1
    if kind == "hold_in_a_thread":
        assert ended[0]["cancelled"]
    assert len(history.lines("ran")) == 1, "a cancelled job is not tried again"
    view = job.inspect()
    assert (view.state, view.attempts) == ("cancelled", 1)
    status = handled.lw.queue().status()
    assert status.cancelled == before.cancelled + 1
    assert status.dead == before.dead
    # the slot and the thread continue
    assert handled.add.enqueue(1).result(30) == 2


async def test_async_methods_cancel_jobs(ahandled: Any, history: History) -> None:
    job = await ahandled.hold.aenqueue(history.path)
    later = await ahandled.add.options(delay="1h").aenqueue(1)
    assert await later.acancel()
    assert await later.astate() == "cancelled"
    while not history.lines("ran"):
        await asyncio.sleep(0.005)
    assert await job.acancel()
    with pytest.raises(JobCancelled):
        await job.aresult(30)
    assert (await job.ainspect()).state == "cancelled"


def test_job_that_finishes_despite_cancellation_has_succeeded(handled: Any, history: History) -> None:
    job = handled.stubborn.enqueue(history.path)
    history.wait(1)
    assert job.cancel()
    assert job.result(30) == "finished all the same"
    assert not job.cancel()
    assert job.state() == "succeeded"


def test_ended_and_unknown_jobs_cannot_be_cancelled(handled: Any, history: History) -> None:
    done = handled.add.enqueue(1)
    assert done.result(30) == 2
    assert not done.cancel()
    assert not handled.lw.job("nobody").cancel()
    with pytest.raises(ResultUnavailable):
        handled.lw.job("nobody").result(0)
    dead = handled.fails.enqueue(history.path)
    with pytest.raises(JobFailed):
        dead.result(30)
    assert not dead.cancel()


def test_job_whose_worker_dies_during_cancellation_is_cancelled(
    own: Any, own_url: str, apps: Path, history: History
) -> None:
    """The job does not run on another worker."""
    job = own.hold.enqueue(history.path)
    with worker("handled:lw", "--lease", "2", url=own_url, folder=apps) as process:
        line = history.wait(1)[0]
        # the process is stopped, so that it receives no message
        import os
        import signal

        os.kill(line["pid"], signal.SIGSTOP)
        assert job.cancel()
        assert job.state() == "running"
        os.kill(line["pid"], signal.SIGKILL)
        with pytest.raises(JobCancelled):
            job.result(30)
        assert own.add.enqueue(1).result(30) == 2
        assert process.process.poll() is None
    assert len(history.lines("ran")) == 1


def test_worker_polls_for_cancellations(handled: Any, busy_url: str, history: History) -> None:
    job = handled.hold.enqueue(history.path)
    history.wait(1)
    with client_of(busy_url) as client:
        # the key that jobs_cancel writes, without its message
        client.hset(QueueKeys("lw", "default").job_notes, job.id, b"1")
    with pytest.raises(JobCancelled):
        job.result(30)


def test_cancelled_jobs_leave_no_keys(own: Any, own_url: str, apps: Path, history: History) -> None:
    jobs = [own.add.enqueue(1), own.add.options(delay="1h").enqueue(1), own.add.options(expires="1h").enqueue(1)]
    for job in jobs:
        assert job.cancel()
    with worker("handled:lw", url=own_url, folder=apps):
        assert own.add.enqueue(2).result(30) == 3
    keys = QueueKeys("lw", "default")
    with client_of(own_url) as client:
        until(lambda: not client.exists(keys.void), "their places are gone")
        assert not client.exists(keys.jobs, keys.job_notes, keys.expiry, keys.due, keys.tries, *keys.ready)
