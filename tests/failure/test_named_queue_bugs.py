"""Named bugs of other queues, with real workers:

jobs that ran twice, were lost, or never ran. More are in test_named_queue_bugs_server.py (with the server's data) and
test_named_queue_bugs_tasks.py (about a task's function). Bugs of the worker's life cycle (signals, reconnecting,
recycling) are in tests/worker, bugs of poison jobs and cancellation in tests/jobs.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from history import History
from lockwork import JobFailed, Lockwork
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import enqueue, job_control
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.scripts import script
from lockwork.runtime.embedded import Embedded
from processes import until, worker
from proxy import proxied

KEYS = QueueKeys("lw", "default")


class Tasks:
    """Tasks that this process enqueues; workers run them on the app `named`."""

    def __init__(self, lw: Lockwork) -> None:
        self.lw = lw
        self.mark = lw.task(name="mark", retries=3)(_of_path)
        self.sleeps = lw.task(name="sleeps", retries=3)(_of_seconds)
        self.blocks_the_loop = lw.task(name="blocks_the_loop", retries=3)(_of_seconds)
        self.computes = lw.task(name="computes", retries=3)(_of_seconds)
        self.gated = lw.task(name="gated", retries=3)(_of_gate)


def _of_path(path: str) -> int: ...  # type: ignore[empty-body]


def _of_seconds(path: str, seconds: float) -> int: ...  # type: ignore[empty-body]


def _of_gate(path: str, gate: str) -> int: ...  # type: ignore[empty-body]


@pytest.fixture
def tasks(spoiled: Embedded) -> Iterator[Tasks]:
    with Lockwork(spoiled.url) as lw:
        yield Tasks(lw)


def test_kombu_337_a_delay_longer_than_the_lease(tasks: Tasks, spoiled: Embedded, apps: Path, history: History) -> None:
    """kombu#337, celery#2481, #3270, #4400, #9882, dramatiq#431:

    several workers ran a job with a delay. Its delay was longer than the visibility time-out, so the queue delivered
    it again and again.
    """
    with (
        worker("named:lw", "--lease", "1s", url=spoiled.url, folder=apps),
        worker("named:lw", "--lease", "1s", url=spoiled.url, folder=apps),
    ):
        jobs = tasks.mark.options(delay="3s").enqueue_many([(history.path,)] * 5)
        assert [job.result(30) for job in jobs] == [1] * 5
        status = tasks.lw.queue().status()
    assert (status.succeeded, status.recovered) == (5, 0)
    assert len(history.lines("ran")) == 5


@pytest.mark.parametrize("kind", ["sleeps", "blocks_the_loop", "computes"])
def test_celery_5935_a_job_longer_than_the_lease(
    tasks: Tasks, spoiled: Embedded, apps: Path, history: History, kind: str
) -> None:
    """celery#5935, laravel#15457, taskiq-redis#101, dramatiq#692, saq#277:

    a long job was run again while it ran. bull#412, bullmq#631, #3183, python-redis-lock#91: the same happened when
    the job's code blocked the renewal.
    """
    with (
        worker("named:lw", "--lease", "2s", url=spoiled.url, folder=apps),
        worker("named:lw", "--lease", "2s", url=spoiled.url, folder=apps),
    ):
        until(lambda: len(tasks.lw.queue().workers()) == 2, "both are there")
        assert getattr(tasks, kind).enqueue(history.path, 4.5).result(30) == 1
        status = tasks.lw.queue().status()
    assert (status.succeeded, status.recovered) == (1, 0)
    assert [line["event"] for line in history.lines()] == ["ran", "done"]


def test_rq_2061_a_worker_that_dies_between_taking_a_job_and_knowing_it(
    tasks: Tasks, spoiled: Embedded, apps: Path, history: History
) -> None:
    """rq#2061, rq#1568, rq#2236, airflow#21225, go-redis#697: a job that had been popped, and whose worker never
    learned of it, was in no list any more."""
    with proxied(spoiled.url) as proxy:
        with worker("named:lw", "--lease", "1s", url=proxy.url, folder=apps) as dying:
            assert tasks.mark.enqueue(history.path).result(30) == 1
            proxy.lose(script("queue/reserve").sha, "reply")
            job = tasks.mark.enqueue(history.path)
            until(lambda: proxy.lost, "the answer was lost", 10)
            proxy.refuse(True)
            for pid in (dying.pid, *dying.children()):
                os.kill(pid, signal.SIGKILL)
        with worker("named:lw", "--lease", "1s", url=spoiled.url, folder=apps):
            assert job.result(30) in (1, 2)
            until(lambda: tasks.lw.queue().status().running == 0, "nothing is in hand")
    assert tasks.lw.queue().status().succeeded == 2


def test_arq_300_a_server_that_forgot_everything(
    tasks: Tasks, spoiled: Embedded, spoil: redis.Redis, apps: Path, history: History, tmp_path: Path
) -> None:
    """arq#300, taskiq-redis#130 (NOGROUP), redis/redis#6062:

    workers hung or ended after the server lost its data. Later jobs must run.
    """
    gate = tmp_path / "gate"
    with worker("named:lw", "--lease", "2s", url=spoiled.url, folder=apps) as process:
        lost = tasks.gated.enqueue(history.path, str(gate))
        history.wait(1)
        spoil.flushall()
        spoil.script_flush()
        job = tasks.mark.enqueue(history.path)
        assert job.result(30) == 1
        gate.touch()
        assert tasks.mark.enqueue(history.path).result(30) == 1
        assert lost.state() == "unknown"
        assert process.process.poll() is None
        until(lambda: not spoil.hlen(KEYS.jobs), "nothing is left of them")


def test_arq_485_cancelling_an_unknown_job_harms_no_later_one(
    tasks: Tasks, spoiled: Embedded, apps: Path, history: History
) -> None:
    """arq#485: the wish to abort a job that was not there was kept, and ended a later job of that id."""
    lw = tasks.lw
    assert not lw.job("later").cancel()
    with worker("named:lw", url=spoiled.url, folder=apps):
        record = tasks.mark.call(history.path).record
        lw.runtime.run(enqueue.push(KEYS, [NewJob("later", record)]))
        assert lw.job("later").result(30) == 1


def test_arq_290_a_busy_worker_cancels_too(
    tasks: Tasks, spoiled: Embedded, apps: Path, history: History, tmp_path: Path
) -> None:
    """arq#290: a worker with one slot did not receive the cancellation."""
    with worker("named:lw", "-c", "1", url=spoiled.url, folder=apps):
        running = tasks.gated.enqueue(history.path, str(tmp_path / "never"))
        waiting = tasks.mark.enqueue(history.path)
        last = tasks.mark.enqueue(history.path)
        history.wait(1)
        assert waiting.cancel()
        assert running.cancel()
        assert last.result(30) == 1
        assert {running.state(), waiting.state()} == {"cancelled"}
    assert len(history.lines("ran")) == 2


@pytest.mark.parametrize("expires", [-1, -(10**12)])
def test_arq_447_an_expiry_that_has_passed(
    tasks: Tasks, spoiled: Embedded, apps: Path, history: History, expires: int
) -> None:
    """arq#447, arq#479: a job whose time was over when it came froze the worker."""
    with worker("named:lw", url=spoiled.url, folder=apps):
        record = tasks.mark.call(history.path).record
        tasks.lw.runtime.run(enqueue.push(KEYS, [NewJob("late", record)], expires_ms=expires))
        assert tasks.mark.enqueue(history.path).result(30) == 1
        until(lambda: tasks.lw.job("late").state() == "expired", "it has expired", 10)
    assert len(history.lines("ran")) == 1


@pytest.mark.parametrize("hours", [-1, 1])
def test_celery_1980_clocks_that_are_wrong(
    tasks: Tasks,
    spoiled: Embedded,
    apps: Path,
    history: History,
    hours: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """celery#1980, #6213, #1802, bullmq's Python lock: times were compared with the clock of some machine."""
    monkeypatch.setenv("CLOCK_ERROR", str(hours * 3600))
    with worker("skewed:lw", "--lease", "2s", url=spoiled.url, folder=apps):
        began = time.time()
        later = tasks.mark.options(delay="1s").enqueue(history.path)
        long = tasks.sleeps.enqueue(history.path, 4.5)
        assert (later.result(30), long.result(30)) == (1, 1)
        ran = {line["id"]: line["at"] - hours * 3600 for line in history.lines("ran")}
        assert ran[later.id] - began > 0.99, "not early"
        assert tasks.lw.queue().status().recovered == 0


def test_dramatiq_266_an_id_without_a_record(
    tasks: Tasks, spoiled: Embedded, spoil: redis.Redis, apps: Path, history: History
) -> None:
    """dramatiq#266, #442: a message that was gone came as None, and the worker ended. rq#1955: as did a registry's."""
    for number in range(3):
        spoil.rpush(KEYS.ready[1], f"lost{number}")
    spoil.zadd(KEYS.due, {"lost later": 1})
    with worker("named:lw", url=spoiled.url, folder=apps) as process:
        jobs = tasks.mark.enqueue_many([(history.path,)] * 20)
        assert [job.result(30) for job in jobs] == [1] * 20
        assert len(process.children()) == 1
        status = tasks.lw.queue().status()
    assert (status.ready, status.scheduled, status.running) == (0, 0, 0)


def test_saq_118_callers_of_a_queue_without_workers_are_not_held(tasks: Tasks, history: History) -> None:
    """saq#118, celery#4207: who waited for a result that did not come waited for ever."""
    job = tasks.mark.enqueue(history.path)
    began = time.monotonic()
    with pytest.raises(TimeoutError, match="has not ended yet"):
        job.result(0.3)
    assert job.cancel()
    with pytest.raises(JobFailed, match="cancelled") as told:
        job.result()
    assert told.value is not None
    assert time.monotonic() - began < 20


def test_saq_127_jobs_of_a_worker_that_never_comes_back(
    tasks: Tasks, spoiled: Embedded, apps: Path, history: History, tmp_path: Path
) -> None:
    """saq#127, bullmq#652, arq#343, procrastinate#740: such jobs stayed active for hours, or until a manual sweep."""
    with worker("named:lw", "--lease", "1s", url=spoiled.url, folder=apps) as process:
        job = tasks.gated.enqueue(history.path, str(tmp_path / "gate"))
        history.wait(1)
        for pid in (process.pid, *process.children()):
            os.kill(pid, signal.SIGKILL)
    threading.Event().wait(1.2)  # the lease is over, and no worker runs
    assert job.state() == "running"
    (tmp_path / "gate").touch()
    with worker("named:lw", "--lease", "1s", url=spoiled.url, folder=apps):
        assert job.result(30) == 2


async def test_django_q_722_a_cancelled_call_spoils_no_other(spoiled: Embedded, spoil: redis.Redis) -> None:
    """koed00/django-q#722, redis-py#2624, #2665: after a cancelled call, the next one got its answer."""
    import asyncio

    async with Lockwork(spoiled.url) as lw:
        task: Any = lw.task(name="mark", retries=3)(_of_path)
        jobs_of = {number: await task.aenqueue(str(number)) for number in range(20)}
        for turn in range(200):
            call = asyncio.create_task(jobs_of[turn % 20].aresult(5))
            for _ in range(turn % 7):
                await asyncio.sleep(0)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert await jobs_of[turn % 20].astate() == "ready"
        details = await lw.runtime.arun(job_control.inspect(KEYS, jobs_of[7].id))
        assert b'["7"]' in details.record
        assert spoil.hlen(KEYS.jobs) == 20
