"""Progress, checkpoints, retry and snooze from inside a running job, which only the current delivery may use."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from clients import client_of
from history import History
from lockwork import ConfigError, JobFailed, Lockwork, PayloadTooLarge
from lockwork.errors import DeliveryOver
from lockwork.jobs.current import JobContext, QueueContext
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import enqueue, job_control, leases
from lockwork.protocol.queue.enqueue import NewJob
from processes import until, worker


def test_progress_is_seen_as_it_comes(handled: Any, history: History, tmp_path: Path) -> None:
    gate = str(tmp_path / "gate")
    job = handled.report.enqueue(history.path, gate, 3)
    seen = []
    for progress in job.watch():
        seen.append(progress["done"])
        assert job.progress() == progress
        Path(f"{gate}{progress['done']}").touch()
    assert seen == [0, 1, 2]
    assert job.result(0) == "done"
    assert job.progress() == {"done": 2}


async def test_async_watch_receives_progress(ahandled: Any, history: History, tmp_path: Path) -> None:
    gate = str(tmp_path / "gate")
    job = await ahandled.report.aenqueue(history.path, gate, 3)
    seen = []
    async for progress in job.awatch():
        seen.append(progress["done"])
        assert await job.aprogress() == progress
        Path(f"{gate}{progress['done']}").touch()
    assert seen == [0, 1, 2]
    assert await job.aattempts() == 1
    assert await job.aerror() is None


async def test_watchers_and_waiters_share_a_job(ahandled: Any, history: History, tmp_path: Path) -> None:
    gate = str(tmp_path / "gate")
    job = await ahandled.report.aenqueue(history.path, gate, 2)
    seen: list[list[int]] = [[], [], []]

    async def watch(mine: list[int]) -> None:
        async for progress in job.awatch():
            mine.append(progress["done"])
            # the job continues when all watchers have the value: fast values may be skipped
            if all(theirs[-1:] == mine[-1:] for theirs in seen):
                Path(f"{gate}{mine[-1]}").touch()

    watching = [asyncio.create_task(watch(mine)) for mine in seen]
    waiting = [asyncio.create_task(job.aresult(30)) for _ in range(3)]
    assert await asyncio.gather(*waiting) == ["done"] * 3
    await asyncio.gather(*watching)
    assert seen == [[0, 1]] * 3


def test_watched_job_that_never_reports(handled: Any) -> None:
    job = handled.add.enqueue(1)
    assert list(job.watch()) == []
    assert job.result(30) == 2
    assert list(handled.lw.job("nobody").watch()) == []


@pytest.mark.parametrize("kind", ["s", "c", "d"])
def test_progress_set_just_before_the_end_is_stored(own: Any, kind: Any) -> None:
    """Watchers receive the last value for every outcome, and also when they start late."""
    keys, runtime = QueueKeys("lw", "default"), own.lw.runtime
    job = own.add.enqueue(1)
    context = _leased(own.lw, keys, "h/1/a")
    watching = job.watch()
    context.progress(0.5)
    assert next(watching) == 0.5
    context.checkpoint("one", 1)
    context.progress(1)
    ended = leases.Outcome(job.id, context.leased.token, kind, b'{"type":"E","message":"m"}')
    assert runtime.run(leases.settle(keys, "h/1/a", [ended], 600_000)) == [True]
    assert list(watching) == [1]
    assert list(job.watch()) == [1]
    assert job.progress() == 1
    if kind != "s":
        assert job.retry()
        assert job.inspect().progress == (1 if kind == "d" else None)


def test_retried_job_continues_after_its_last_step(handled: Any, history: History) -> None:
    assert handled.steps_in_a_thread.enqueue(history.path).result(30) == [2, {"one": 1, "two": 2}]
    assert len(history.lines("one")) == 1


def test_job_killed_between_checkpoints_continues_there(
    own: Any, own_url: str, apps: Path, history: History, tmp_path: Path
) -> None:
    """After kill -9 in the second of three steps, no finished step runs again."""
    job = own.steps.enqueue(history.path, str(tmp_path / "gate"))
    with worker("handled:lw", "--lease", "5", url=own_url, folder=apps):
        until(lambda: [line["step"] for line in history.lines("checked")] == ["step0", "step1"], "two steps are done")
        os.kill(history.lines("checked")[0]["pid"], signal.SIGKILL)
        attempt, checkpoints = job.result(30)
    assert attempt == 2
    assert checkpoints == {"step0": {"attempt": 1}, "step1": {"attempt": 1}, "step2": {"attempt": 2}}
    assert [len(history.lines(f"step{number}")) for number in range(3)] == [1, 1, 1]


def test_dead_job_keeps_its_checkpoints_until_it_has_succeeded(own: Any, own_url: str) -> None:
    keys, runtime = QueueKeys("lw", "default"), own.lw.runtime
    job = own.add.enqueue(1)
    context = _leased(own.lw, keys, "h/1/a")
    context.checkpoint("one", {"x": 1})
    context.progress(0.5)
    dead = leases.Outcome(job.id, context.leased.token, "d", b'{"type":"E","message":"m"}')
    assert runtime.run(leases.settle(keys, "h/1/a", [dead], 600_000)) == [True]
    view = job.inspect()
    assert (view.state, view.checkpoints, view.progress) == ("dead", {"one": {"x": 1}}, 0.5)
    assert job.retry()
    context = _leased(own.lw, keys, "h/1/a")
    assert context.checkpoints == {"one": {"x": 1}}
    done = leases.Outcome(job.id, context.leased.token, "s", b"1")
    assert runtime.run(leases.settle(keys, "h/1/a", [done], 600_000)) == [True]
    assert job.inspect().checkpoints == {}


def _leased(lw: Lockwork, keys: QueueKeys, session: str, cap: int = 1000) -> JobContext:
    """Lease a job like a worker."""
    lw.runtime.run(leases.beat(keys, {session: True}, 60_000, 1.0))
    (leased,) = lw.runtime.run(leases.reserve(keys, session, 1, "1", "")).jobs
    return JobContext(leased, "add", QueueContext("default", keys, lw.runtime, session, cap))


def test_old_delivery_cannot_write(own: Any) -> None:
    """Q3: progress and checkpoints of an expired delivery are refused with DeliveryOver."""
    keys, runtime = QueueKeys("lw", "default"), own.lw.runtime
    job = own.add.enqueue(1)
    old = _leased(own.lw, keys, "h/1/a")
    old.checkpoint("one")
    assert runtime.run(leases.recover(keys, "h/1/a", 600_000, gone=True)) == 1
    new = _leased(own.lw, keys, "h/1/b")
    assert new.fence > old.fence
    writes: tuple[Callable[[], Any], ...] = (lambda: old.progress(1), lambda: old.checkpoint("two"))
    for write in writes:
        with pytest.raises(DeliveryOver, match=f"job {job.id}: this delivery has ended"):
            write()
    assert new.checkpoints == {"one": None}
    assert job.inspect().checkpoints == {"one": None}
    assert job.progress() is None
    runtime.run(leases.settle(keys, "h/1/b", [leases.Outcome(job.id, new.leased.token, "s")], 600_000))
    with pytest.raises(DeliveryOver):
        new.progress(1)


def test_wrong_progress_and_checkpoints_are_refused(own: Any) -> None:
    keys = QueueKeys("lw", "default")
    job = own.add.enqueue(1)
    context = _leased(own.lw, keys, "h/1/a", cap=1000)
    for name in ("", "x" * 201, None):
        with pytest.raises(ConfigError, match="a checkpoint's name must be text"):
            context.checkpoint(name)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="cannot be sent as JSON"):
        context.progress(object())
    with pytest.raises(PayloadTooLarge):
        context.checkpoint("large", "x" * 1000)
    context.checkpoint("a", "x" * 600)
    with pytest.raises(PayloadTooLarge, match="exceed 1000 bytes in total"):
        context.checkpoint("b", "x" * 600)
    assert job.inspect().checkpoints == {"a": "x" * 600}
    context.checkpoint("a", "y")
    assert job.inspect().checkpoints == {"a": "y"} == context.checkpoints
    runtime = own.lw.runtime
    runtime.run(leases.recover(keys, "h/1/a", 600_000, gone=True))


def test_snooze_is_not_an_attempt(handled: Any, history: History) -> None:
    before = handled.lw.queue().status()
    assert handled.snoozes.enqueue(history.path, 4).result(30) == 1
    lines = history.lines("ran")
    assert [line["attempt"] for line in lines] == [1] * 5
    assert all(later["at"] - earlier["at"] >= 0.019 for earlier, later in pairwise(lines))
    after = handled.lw.queue().status()
    assert (after.failed, after.retried) == (before.failed, before.retried)


def test_job_retries_itself_with_a_delay(handled: Any, history: History) -> None:
    """The job's delay overrides the task's back-off of a minute."""
    assert handled.asks_again.enqueue(history.path).result(30) == 3
    assert [line["attempt"] for line in history.lines("ran")] == [1, 2, 3]


def test_cancelled_job_does_not_snooze(own: Any) -> None:
    keys, runtime = QueueKeys("lw", "default"), own.lw.runtime
    job = own.add.enqueue(1)
    context = _leased(own.lw, keys, "h/1/a")
    assert job.cancel()
    assert runtime.run(job_control.asked(keys, "h/1/a", [context.leased])) == {job.id}
    snoozed = leases.Outcome(job.id, context.leased.token, "z", b"", 1000)
    assert runtime.run(leases.settle(keys, "h/1/a", [snoozed], 600_000)) == [True]
    assert job.state() == "cancelled"


def test_corrupt_job_note_affects_no_other_job(own: Any, own_url: str) -> None:

    keys, runtime = QueueKeys("lw", "default"), own.lw.runtime
    job = own.add.enqueue(1)
    with client_of(own_url) as client:
        client.hset(keys.job_notes, job.id, b"0\xc1nothing")
    context = _leased(own.lw, keys, "h/1/a")
    with pytest.raises(ValueError, match="MessagePack"):
        _ = context.checkpoints
    runtime.run(leases.settle(keys, "h/1/a", [leases.Outcome(job.id, context.leased.token, "s", b"1")], 600_000))
    assert job.result(1) == 1


def test_threads_of_one_job_save_checkpoints(own: Any) -> None:
    """Concurrent checkpoints of one job are all stored."""
    keys = QueueKeys("lw", "default")
    job = own.add.enqueue(1)
    context = _leased(own.lw, keys, "h/1/a")
    threads = [threading.Thread(target=context.checkpoint, args=(f"s{number}", number)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert job.inspect().checkpoints == {f"s{number}": number for number in range(8)} == context.checkpoints
    own.lw.runtime.run(leases.recover(keys, "h/1/a", 600_000, gone=True))


def test_ended_job_is_not_replaced_by_a_resent_enqueue(own: Any) -> None:
    """A known ID that is pushed again stays unchanged, also after a cancellation."""
    keys, runtime = QueueKeys("lw", "default"), own.lw.runtime
    job = own.add.enqueue(1)
    assert job.cancel()
    call = next(enqueue.push(keys, [NewJob(job.id, b"1,1,,;x")]))
    runtime.run(_once(call.again()))  # type: ignore[union-attr]
    assert job.state() == "cancelled"
    with pytest.raises(JobFailed):
        job.result(0)


def _once(effect: Any) -> Any:
    return (yield effect)
