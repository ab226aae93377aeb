"""Detection of Lockwork's clean-ups in threads and coroutines; a real server delays each release."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import AsyncIterator

import pytest
import redis

from lockwork import Lockwork
from lockwork.errors import JobTimeout
from lockwork.worker.execution.clean_ups import task_cleans_up, thread_cleans_up
from lockwork.worker.execution.threads import ThreadPool, ThreadRun
from processes import until

_PAUSE = 1000
"""Duration of the server's pause, in milliseconds."""


async def _released(lw: Lockwork, held: asyncio.Event, leave: asyncio.Event) -> None:
    async with lw.lock("guarded"):
        held.set()
        await leave.wait()


async def _released_in_a_task(lw: Lockwork, held: asyncio.Event, leave: asyncio.Event) -> None:
    await asyncio.create_task(_released(lw, held, leave))


@contextlib.asynccontextmanager
async def _locked(lw: Lockwork) -> AsyncIterator[None]:
    async with lw.lock("guarded"):
        yield


async def _released_by_a_generator(lw: Lockwork, held: asyncio.Event, leave: asyncio.Event) -> None:
    async with _locked(lw):
        held.set()
        await leave.wait()


@pytest.mark.parametrize("job", [_released, _released_in_a_task, _released_by_a_generator])
async def test_release_of_a_coroutine_is_a_clean_up(lw: Lockwork, admin: redis.Redis, job: object) -> None:
    held, leave = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(job(lw, held, leave))  # type: ignore[operator]
    await held.wait()
    assert not task_cleans_up(task)
    admin.client_pause(_PAUSE)
    leave.set()
    await asyncio.sleep(0.05)
    assert task_cleans_up(task)
    await task


async def test_wait_for_lock_is_not_a_clean_up(lw: Lockwork) -> None:
    async with lw.lock("guarded"):
        task = asyncio.create_task(lw.lock("guarded").aacquire())
        await asyncio.sleep(0.05)
        assert not task_cleans_up(task)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_release_in_a_thread_is_not_interrupted_again(lw: Lockwork, admin: redis.Redis) -> None:
    held, leave = threading.Event(), threading.Event()

    def job() -> str:
        with lw.lock("guarded"):
            held.set()
            leave.wait()
        return "released"

    pool, run = ThreadPool(1), ThreadRun(job, (), {})
    ending = asyncio.create_task(pool.finish(run, None))
    await asyncio.to_thread(held.wait)
    admin.client_pause(_PAUSE)
    leave.set()
    while not any(map(thread_cleans_up, sys._current_frames())):
        await asyncio.sleep(0)
    assert not run.time_out(again=True)
    assert await ending == "released"
    pool.close()


async def test_interrupted_call_that_cleans_up_is_not_interrupted_again(lw: Lockwork, admin: redis.Redis) -> None:
    """The waiter is removed from the queue of waiters while the server does not answer."""
    async with lw.lock("guarded"):
        pool, run = ThreadPool(1), ThreadRun(lw.lock("guarded").acquire, (), {})
        ending = asyncio.create_task(pool.finish(run, None))
        await asyncio.to_thread(until, lambda: lw.locks().locks[0].line, "it waits")
        assert not any(map(thread_cleans_up, sys._current_frames()))
        admin.client_pause(_PAUSE)
        run.interrupt(JobTimeout)
        while not any(map(thread_cleans_up, sys._current_frames())):
            await asyncio.sleep(0)
        assert not run.time_out(again=True)
        with pytest.raises(JobTimeout):
            await ending
        pool.close()
    await lw.lock("guarded").aacquire(wait="5s")
    await lw.lock("guarded").arelease()


async def test_thread_that_has_left_its_call_is_not_interrupted() -> None:
    """After an interrupt at any instruction, the thread accepts no second interrupt."""
    pool = ThreadPool(1)
    for _ in range(200):
        run = ThreadRun(_spins, (), {})
        ending = asyncio.get_running_loop().create_task(pool.finish(run, None))
        while not run.time_out(again=True):
            await asyncio.sleep(0)
        run.interrupt(JobTimeout)
        with pytest.raises(JobTimeout):
            await ending
        assert not run.time_out(again=True)
        assert run.timed_out
        assert not run.returned
    pool.close()


def _spins() -> None:
    while True:
        pass


async def test_time_out_inside_a_call_of_the_server_is_raised(lw: Lockwork) -> None:
    """JobTimeout is an OSError, but it does not mean that the connection broke."""
    pool, queue = ThreadPool(1), lw.queue("busy")

    def calls() -> None:
        while True:
            queue.status()

    for _ in range(5):
        await asyncio.to_thread(queue.status)  # opens the connection
        run = ThreadRun(calls, (), {})
        ending = asyncio.get_running_loop().create_task(pool.finish(run, None))
        while not run.time_out(again=True):
            await asyncio.sleep(0)
        with pytest.raises(JobTimeout):
            await asyncio.wait_for(ending, 10)
    pool.close()
