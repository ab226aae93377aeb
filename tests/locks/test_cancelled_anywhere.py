"""Cancelled at any step, an acquire is owned or undone (L6, L10)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
import redis

from locks.kinds import HANDLES, taken
from lockwork import LockLost, Lockwork
from processes import until


@pytest.fixture
async def rival(url: str, admin: redis.Redis) -> AsyncIterator[Lockwork]:
    async with Lockwork(url) as app:
        yield app


async def swept(
    lw: Lockwork, rival: Lockwork, what: Callable[[], Coroutine[Any, Any, object]], most: int = 80
) -> tuple[int, int]:
    """Cancel `what` before its k-th turn of the loop, for every k; return how many runs were cancelled and how many
    finished. After each run, the lock "x" must be free or held by the rival, without waiters.
    """
    ended = finished = 0
    for count in range(most):
        task = asyncio.get_running_loop().create_task(what())
        for _ in range(count):
            await asyncio.sleep(0)
        was_done = task.done()
        task.cancel()
        try:
            await task
            finished += 1
        except asyncio.CancelledError:
            ended += 1
        except LockLost:
            finished += 1
        state = await rival.lock("x").ainspect()
        assert state.waiters == 0, f"cancelled at turn {count}: it waits still"
        held_by_rival = rival.lock("x").held()
        assert held_by_rival or not state.expires_in, f"cancelled at turn {count}: held by {state.owner}"
        assert not list(lw.runtime.holds), f"cancelled at turn {count}: {lw.runtime.holds}"
        if was_done:
            break
    return ended, finished


async def test_cancelled_at_every_turn_of_a_whole_block(alw: Lockwork, rival: Lockwork) -> None:
    await alw.lock("warm").ainspect()

    async def block() -> None:
        async with alw.lock("x") as grant:
            assert not grant.lost
            await asyncio.sleep(0)

    ended, finished = await swept(alw, rival, block)
    assert ended > 3
    assert finished


@pytest.mark.parametrize("kind", HANDLES)
async def test_cancelled_at_every_turn_of_a_block_of_any_kind(alw: Lockwork, rival: Lockwork, kind: str) -> None:
    await alw.lock("warm").ainspect()
    ended = 0
    for count in range(80):
        name = f"x{count}"

        async def block(name: str = name) -> None:
            async with HANDLES[kind](alw, name):
                await asyncio.sleep(0)

        task = asyncio.create_task(block())
        for _ in range(count):
            await asyncio.sleep(0)
        if task.done():
            break
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        ended += task.cancelled()
        assert not alw.runtime.holds, count
        assert not alw.runtime.live, count
        if kind != "sticky" or not alw.runtime.sticky_cache.idle:
            free = partial(taken, rival, kind, name)
            await asyncio.to_thread(until, lambda free=free: not free(), f"free, cancelled at turn {count}", 5)
    assert ended > 3


async def test_cancelled_at_every_turn_of_a_nested_block(alw: Lockwork, rival: Lockwork) -> None:
    await alw.lock("warm").ainspect()

    async def block() -> None:
        async with alw.lock("x"), alw.lock("x"):
            await asyncio.sleep(0)

    assert (await swept(alw, rival, block))[0] > 3


async def test_cancelled_at_every_turn_of_trying(alw: Lockwork, rival: Lockwork) -> None:
    await alw.lock("warm").ainspect()

    async def attempt() -> None:
        grant = await alw.lock("x").atry_acquire()
        if grant is not None:
            async with grant:
                await asyncio.sleep(0)

    assert (await swept(alw, rival, attempt))[0] > 2
    async with rival.lock("x"):
        assert (await swept(alw, rival, attempt))[0] > 1


async def test_cancelled_at_every_turn_of_an_extension(alw: Lockwork, rival: Lockwork) -> None:
    await alw.lock("warm").ainspect()

    async def block() -> None:
        async with alw.lock("x", lease=5) as grant:
            await grant.aextend("1h")

    assert (await swept(alw, rival, block))[0] > 4


async def test_cancelled_at_every_turn_of_a_wait(alw: Lockwork, rival: Lockwork) -> None:
    await alw.lock("warm").ainspect()
    async with rival.lock("x"):
        assert (await swept(alw, rival, alw.lock("x").aacquire, 40))[0] == 40


async def test_cancelled_at_every_turn_of_a_wait_with_a_fixed_lease(alw: Lockwork, rival: Lockwork) -> None:
    """A fixed lease asks once more after the hand-over: cancelled there, too."""
    await alw.lock("warm").ainspect()
    for count in range(25):
        await rival.lock("x").aacquire()

        async def take() -> None:
            async with alw.lock("x", lease="1h"):
                await asyncio.sleep(0)

        task = asyncio.create_task(take())
        while not (await rival.lock("x").ainspect()).waiters:
            await asyncio.sleep(0)
        await rival.lock("x").arelease()
        for _ in range(count):
            await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert not await rival.lock("x").alocked(), f"cancelled {count} turns after the hand-over"


@pytest.mark.parametrize("lease", [0.2, None], ids=["fixed", "renewed"])
async def test_lost_lease_and_cancellation_at_every_turn_leave_no_hold(
    url: str, admin: redis.Redis, rival: Lockwork, lease: float | None
) -> None:
    """The engine cancels the body because of the lost lease while another task cancels the same task."""
    async with Lockwork(url, lock_lease=0.3) as lw:
        for count in range(8):

            async def block() -> None:
                async with lw.lock("x", lease=lease):
                    if lease is None:
                        admin.delete("lw:{lock:x}")
                    await asyncio.sleep(30)

            task = asyncio.create_task(block())
            while not task.cancelling():  # until the engine's cancellation has reached the loop
                await asyncio.sleep(0)
            for _ in range(count):
                await asyncio.sleep(0)
            asked = task.cancel()
            with pytest.raises((asyncio.CancelledError, LockLost)) as caught:
                await task
            # an accepted cancel() cancels the task; LockLost may win only in the first turns after the engine's cancel
            if asked and caught.type is LockLost:
                assert count < 3
            assert not lw.runtime.holds
            with suppress(LockLost):
                async with lw.lock("x", wait=5):
                    pass


async def test_lease_end_does_not_cancel_a_task_after_its_block(url: str, admin: redis.Redis) -> None:
    """The lease ends at the same moment as the block."""
    async with Lockwork(url) as lw:
        for step in range(30):
            lease = 0.1
            end = time.monotonic() + lease - 0.004 + step * 0.0003
            with suppress(LockLost):
                async with lw.lock("x", lease=lease):
                    while time.monotonic() < end:
                        await asyncio.sleep(0)
            for _ in range(5):
                await asyncio.sleep(0.001)
            task = asyncio.current_task()
            assert task is not None
            assert task.cancelling() == 0
