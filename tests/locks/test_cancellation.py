"""Cancelled anywhere, an acquiring task leaves no lock held and no place in the line (L6, L10)."""

from __future__ import annotations

import asyncio
import threading

import pytest

from cancelling import cancelled, turns
from lockwork import Lockwork


async def free_and_nobody_waits(aother: Lockwork, name: str = "x") -> None:
    grant = await aother.lock(name).atry_acquire()
    assert grant is not None, await aother.lock(name).ainspect()
    assert (await aother.lock(name).ainspect()).waiters == 0
    await aother.lock(name).arelease()


async def test_at_every_turn_of_the_loop_while_the_lock_is_free(alw: Lockwork, aother: Lockwork) -> None:
    await alw.lock("warm").ainspect()
    ended = 0

    async def take() -> None:
        async with alw.lock("x"):
            pass

    for count in range(60):
        task = asyncio.create_task(take())
        await turns(count % 12)
        ended += await cancelled(task)
        await free_and_nobody_waits(aother)
    assert ended > 10


async def test_at_every_turn_of_the_loop_while_it_waits(alw: Lockwork, aother: Lockwork) -> None:
    async with aother.lock("x"):
        for count in range(40):
            task = asyncio.create_task(alw.lock("x").aacquire())
            await turns(count)
            assert await cancelled(task)
        assert (await aother.lock("x").ainspect()).waiters == 0
    await free_and_nobody_waits(aother)


async def test_cancellation_during_hand_over_frees_the_lock(alw: Lockwork, aother: Lockwork) -> None:
    """Release and cancellation race: either the lock is free, or the task acquires and releases it."""
    for count in range(60):
        await aother.lock("x").aacquire()

        async def take() -> None:
            async with alw.lock("x"):
                pass

        task = asyncio.create_task(take())
        while not (await aother.lock("x").ainspect()).waiters:
            await asyncio.sleep(0)
        await aother.lock("x").arelease()
        await turns(count % 15)
        await cancelled(task)
        await free_and_nobody_waits(aother)


async def test_cancelling_half_of_the_waiters_serves_the_rest_in_order(alw: Lockwork, aother: Lockwork) -> None:
    served: list[int] = []
    await alw.lock("x").ainspect()  # connect first, so that the tasks arrive in the order of their creation

    async def turn(number: int) -> None:
        async with alw.lock("x"):
            served.append(number)
            await asyncio.sleep(0)

    await aother.lock("x").aacquire()
    tasks = [asyncio.create_task(turn(number)) for number in range(100)]
    while (await aother.lock("x").ainspect()).waiters < 100:
        await asyncio.sleep(0)
    for number in range(0, 100, 2):
        tasks[number].cancel()
    await aother.lock("x").arelease()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert served == list(range(1, 100, 2))
    await free_and_nobody_waits(aother)


async def test_cancelled_acquire_before_the_first_connection_leaves_nothing(url: str, aother: Lockwork) -> None:
    for count in range(25):
        async with Lockwork(url) as fresh:
            task = asyncio.create_task(fresh.lock("x").aacquire())
            await turns(count)
            if not await cancelled(task):
                return  # the acquire finished before the cancellation
        state = await aother.lock("x").ainspect()
        assert (state.owner, state.waiters) == (None, 0), count


async def test_second_cancellation_does_not_stop_the_clean_up(alw: Lockwork, aother: Lockwork) -> None:
    async with aother.lock("x"):
        for count in range(10):
            task = asyncio.create_task(alw.lock("x").aacquire())
            while not (await aother.lock("x").ainspect()).waiters:
                await asyncio.sleep(0)
            task.cancel()
            await turns(count)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await aother.lock("x").ainspect()).waiters == 0


async def test_cancelled_release_is_still_sent(alw: Lockwork, aother: Lockwork) -> None:
    for count in range(20):
        await alw.lock("x").aacquire()
        # the owner is this task, so the release is cancelled from outside
        handle = asyncio.get_running_loop()
        me = asyncio.current_task()
        assert me is not None

        def cut(steps: int, me: asyncio.Task[object] = me, handle: asyncio.AbstractEventLoop = handle) -> None:
            if steps:
                handle.call_soon(cut, steps - 1)
            else:
                me.cancel()

        cut(count % 5 + 1)
        with pytest.raises(asyncio.CancelledError):
            await alw.lock("x").arelease()
            await asyncio.sleep(10)
        me.uncancel()
        async with aother.lock("x", wait=10):  # well before the lease would have ended
            pass


def test_ctrl_c_while_waiting_leaves_no_waiter(lw: Lockwork, url: str) -> None:
    """asyncio.run cancels its main task, and then closes the loop with everything that still runs on it."""

    async def main() -> None:
        async with Lockwork(url) as mine:
            task = asyncio.current_task()
            assert task is not None
            threading.Timer(0.1, asyncio.get_running_loop().call_soon_threadsafe, [task.cancel]).start()
            async with mine.lock("x"):
                pytest.fail("it is held by another owner")

    with lw.lock("x"):
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(main())
        assert lw.lock("x").inspect().waiters == 0
