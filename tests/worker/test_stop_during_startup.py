"""A worker process that receives a stop at the moment when it becomes ready."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from lockwork import Lockwork
from lockwork.worker.execution.threads import ThreadPool
from lockwork.worker.ipc.messages import Urgency
from lockwork.worker.process.lifecycle import ready
from lockwork.worker.settings import WorkerOptions


async def test_ready_process_is_not_cancelled_by_earlier_stop() -> None:
    """Otherwise, the process would count as crashed, and its jobs would lose an attempt."""
    order, connected = asyncio.Event(), asyncio.Event()
    app, threads = Lockwork(), ThreadPool(1)

    class Control:
        async def reached(self, _urgency: Urgency) -> None:
            await order.wait()

    @app.lifespan
    async def connection() -> AsyncIterator[None]:
        await connected.wait()
        yield

    async def work() -> str:
        options = WorkerOptions("app:lw", ["default"], 1, 1, 15, 30)
        async with ready(app, options, threads, Control()) as caller:
            for _ in range(5):
                await asyncio.sleep(0)
            return "ready" if caller is not None else "given up"

    task = asyncio.create_task(work())
    for _ in range(5):
        await asyncio.sleep(0)
    order.set()
    connected.set()
    try:
        assert await task == "ready"
    finally:
        threads.close()
