"""A worker in another program's process: `lw.worker()` without a name."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest

from lockwork import ConfigError, JobFailed, Lockwork, LockworkError, current_job, current_jobs
from lockwork.types import EmbeddedWorker, WorkerHandle


@contextmanager
def at_work(worker: EmbeddedWorker) -> Iterator[threading.Thread]:
    thread = threading.Thread(target=worker.run, name="lockwork-test-worker")
    thread.start()
    try:
        yield thread
    finally:
        worker.stop()
        thread.join(30)
        assert not thread.is_alive()


def test_jobs_of_all_kinds_run(lw: Lockwork) -> None:
    @lw.task
    def add(a: int, b: int) -> str:
        return f"{a + b} {current_job().attempt}"

    @lw.task(queue="other", retries=1, backoff=0)
    async def again() -> int:
        if current_job().attempt == 1:
            raise LookupError
        return current_job().attempt

    @lw.task(batch=5)
    def index(pages: list[str]) -> list[int]:
        return [len(page) + len(current_jobs()) for page in pages]

    @lw.task(executor="process", hard_timeout=5)
    def heavy() -> str:
        return threading.current_thread().name

    @lw.task(retries=0)
    def fail() -> None:
        raise LookupError("no")

    with at_work(lw.worker(concurrency=5, lease=5)):
        assert add.enqueue(1, 2).result(10) == "3 1"
        assert again.enqueue().result(10) == 2
        assert index.enqueue("ab").result(10) == 3
        assert "lockwork" in heavy.enqueue().result(10).lower()
        with pytest.raises(JobFailed, match="LookupError: no"):
            fail.enqueue().result(10)


def test_worker_announces_itself_and_takes_orders(lw: Lockwork, other: Lockwork) -> None:
    @lw.task(queue="mail")
    def send() -> None: ...

    with at_work(lw.worker(queues=["mail"], concurrency=3)) as thread:
        send.enqueue().result(10)
        deadline = time.monotonic() + 10
        while not (found := [each for each in other.workers() if each.state == "running"]):
            assert time.monotonic() < deadline
        assert (found[0].queues, found[0].slots) == (["mail"], 3)
        handle = other.worker(found[0].name)
        assert isinstance(handle, WorkerHandle)
        assert handle.stop()
        thread.join(15)
        assert not thread.is_alive()
    assert other.workers() == []


def test_stop_waits_for_running_jobs_within_the_grace(lw: Lockwork) -> None:
    started = threading.Event()

    @lw.task
    async def slow(seconds: float) -> int:
        started.set()
        await asyncio.sleep(seconds)
        return current_job().attempt

    with at_work(lw.worker()):
        job = slow.enqueue(0.5)
        assert started.wait(10)
    assert job.result(1) == 1
    started.clear()
    worker = lw.worker(grace=0.2)
    with at_work(worker):
        job = slow.enqueue(100)
        assert started.wait(10)
    assert job.state() == "ready"
    started.clear()
    with at_work(worker):  # it can run again
        assert started.wait(10)
        worker.stop()
        worker.stop()  # at once
    assert job.attempts() in (0, None)


def test_program_keeps_its_connections_and_locks(lw: Lockwork, app_url: str) -> None:
    with Lockwork(app_url, lock_lease=1) as own:

        @own.task
        def work() -> int:
            return 1

        with own.lock("mine") as grant:
            with at_work(own.worker()):
                assert work.enqueue().result(10) == 1
            time.sleep(1.5)
            assert not grant.lost
        assert work.enqueue().state() == "ready"


async def test_in_the_event_loop_of_the_program(alw: Lockwork) -> None:
    log: list[str] = []

    @alw.lifespan
    async def life() -> AsyncIterator[None]:
        log.append("up")
        yield
        log.append("down")

    @alw.task
    async def work(seconds: float) -> str:
        log.append("runs")
        await asyncio.sleep(seconds)
        return asyncio.current_task().get_name()  # type: ignore[union-attr]

    worker = alw.worker()
    running = asyncio.create_task(worker.arun())
    assert await (await work.aenqueue(0)).aresult(10) == "lockwork-slot"
    with pytest.raises(RuntimeError, match="runs already"):
        await worker.arun()
    job = await work.aenqueue(100)
    while log.count("runs") < 2:
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert log == ["up", "runs", "runs", "down"]
    assert await job.astate() == "ready"
    assert {task.get_name() for task in asyncio.all_tasks()} & {"lockwork-slot", "lockwork-fetch"} == set()


def test_failed_set_up_is_raised(lw: Lockwork) -> None:
    broken = ["no database"]

    @lw.lifespan
    def life() -> Iterator[None]:
        if broken:
            raise LookupError(broken[0])
        yield

    @lw.task
    def work() -> None: ...

    with pytest.raises(LockworkError, match="could not be set up"):
        lw.worker().run()


def test_options_are_checked(lw: Lockwork) -> None:
    with pytest.raises(ConfigError, match="no tasks"):
        lw.worker()

    @lw.task
    def work() -> None: ...

    for wrong in ({"concurrency": 0}, {"queues": "mail"}, {"lease": 0.5}, {"grace": -1}):
        with pytest.raises(ConfigError):
            lw.worker(**wrong)
    worker = lw.worker()
    worker.stop()
    worker.run()  # returns at once
