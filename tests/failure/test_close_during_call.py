"""Closing an app during calls and waits: each caller gets an error at once."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from lockwork import Lockwork, ServerUnavailable

Close = Callable[[Lockwork], Awaitable[None]]


async def here(app: Lockwork) -> None:
    app.close()


async def in_a_thread(app: Lockwork) -> None:
    thread = threading.Thread(target=app.close)
    thread.start()
    thread.join()


async def in_order(app: Lockwork) -> None:
    await app.aclose()


closing = pytest.mark.parametrize("close", [here, in_a_thread, in_order])


@closing
async def test_calls_under_way(url: str, close: Close) -> None:
    app = Lockwork(url)

    @app.task
    async def step(number: int) -> None: ...

    await step.aenqueue(0)
    calls = [asyncio.ensure_future(app.queue().astatus()) for _ in range(5)]
    job = asyncio.ensure_future(step.aenqueue(1))
    await asyncio.sleep(0)  # all requests are sent, and the server has answered none
    await close(app)
    async with asyncio.timeout(5):
        ended = await asyncio.gather(*calls, job, return_exceptions=True)
    assert [type(error) for error in ended] == [ServerUnavailable] * 6
    assert "was closed" in str(ended[0])
    await step.aenqueue(2)  # the app opens again
    await app.aclose()


@closing
async def test_close_ends_a_call_that_waits_for_its_connection(url: str, close: Close) -> None:
    app = Lockwork(url)
    await asyncio.to_thread(app.queues)  # there is a server, but this event loop has no connection to it yet
    call = asyncio.ensure_future(app.aqueues())
    while not app.runtime._loops:
        await asyncio.sleep(0)
    await close(app)
    async with asyncio.timeout(5):
        with pytest.raises(ServerUnavailable, match="was closed"):
            await call


def test_loop_that_ends_while_connecting_leaves_nothing_open(url: str, caplog: pytest.LogCaptureFixture) -> None:
    with Lockwork(url) as app:
        app.queues()
        calls: list[asyncio.Future[Any]] = []

        async def leave_early(turns: int) -> None:
            calls.append(asyncio.ensure_future(app.aqueues()))
            for _ in range(turns):
                await asyncio.sleep(0)

        for turns in range(100):
            asyncio.run(leave_early(turns))
    calls.clear()
    gc.collect()
    assert not [record for record in caplog.records if "pending" in record.getMessage()]
