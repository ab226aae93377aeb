"""The worker cancels a job once, although it repeats the stop, and does not disturb the job's clean-up."""

from __future__ import annotations

import asyncio
import threading

from lockwork.errors import JobCancelled
from lockwork.jobs.current import JobContext, QueueContext, SlotContext
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue.leases import Leased
from lockwork.runtime.runtime import Runtime
from lockwork.worker.execution.threads import ThreadPool, ThreadRun


def _slot() -> SlotContext:
    def nowhere() -> None:
        raise AssertionError("no server is needed here")

    runtime = Runtime(nowhere, prefix="lw", patience=1, allow_eviction=True)  # type: ignore[arg-type]
    slot = SlotContext()
    queue_context = QueueContext("default", QueueKeys("lw", "default"), runtime, "session", 1000)
    slot.job = JobContext(Leased("1", b"1 1 1", b"", 1, 1), "task", queue_context)
    return slot


async def test_coroutine_is_cancelled_once() -> None:
    slot, cleaning = _slot(), asyncio.Event()

    async def job() -> str:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            cleaning.set()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            return "cleaned up"
        return "never"

    slot.task = task = asyncio.create_task(job())  # type: ignore[assignment]
    await asyncio.sleep(0)
    slot.stop()
    await cleaning.wait()
    slot.stop()
    assert await task == "cleaned up"


async def test_thread_is_interrupted_once() -> None:
    slot, threads = _slot(), ThreadPool(1)
    begun, cleaning, again = threading.Event(), threading.Event(), threading.Event()

    def job() -> str:
        try:
            begun.set()
            while True:
                threading.Event().wait(0.001)
        except JobCancelled:
            cleaning.set()
            while not again.is_set():
                threading.Event().wait(0.001)
            return "cleaned up"

    run = ThreadRun(job, (), {})
    assert slot.job is not None
    slot.job.in_thread(run)
    ending = asyncio.create_task(threads.finish(run, None))
    await asyncio.to_thread(begun.wait)
    slot.stop()
    await asyncio.to_thread(cleaning.wait)
    slot.stop()
    again.set()
    try:
        assert await ending == "cleaned up"
    finally:
        threads.close()
