"""Cancelled anywhere, a task leaves neither a grant nor a place in line: read-write locks and semaphores (L6, L9)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from cancelling import cancelled, turns
from lockwork import Lockwork
from lockwork.locks.handle import Handle

Make = Callable[[Lockwork], Handle[Any]]


def write(lw: Lockwork) -> Handle[Any]:
    return lw.rwlock("x").write()


def read(lw: Lockwork) -> Handle[Any]:
    return lw.rwlock("x").read()


def permit(lw: Lockwork) -> Handle[Any]:
    return lw.semaphore("x", 2)


async def all_free(aother: Lockwork) -> None:
    state = await aother.rwlock("x").ainspect()
    assert (state.writer, state.readers, state.waiting) == (None, 0, 0)
    permits = await aother.semaphore("x", 2).ainspect()
    assert (permits.used, permits.held, permits.waiting) == (0, 0, 0)


async def take(handle: Handle[Any]) -> None:
    async with handle:
        pass


@pytest.mark.parametrize("make", [write, read, permit])
async def test_at_every_turn_of_the_loop_while_it_is_free(alw: Lockwork, aother: Lockwork, make: Make) -> None:
    await alw.semaphore("warm", 1).ainspect()
    ended = 0
    for count in range(36):
        task = asyncio.create_task(take(make(alw)))
        await turns(count % 12)
        ended += await cancelled(task)
        await all_free(aother)
    assert ended > 6


@pytest.mark.parametrize("make", [write, read, permit])
async def test_at_every_turn_of_the_loop_while_it_waits(alw: Lockwork, aother: Lockwork, make: Make) -> None:
    async with aother.rwlock("x").write(), aother.semaphore("x", 2, units=2):
        for count in range(30):
            task = asyncio.create_task(take(make(alw)))
            await turns(count)
            assert await cancelled(task)
        assert (await aother.rwlock("x").ainspect()).waiting == 0
        assert (await aother.semaphore("x", 2).ainspect()).waiting == 0
    await all_free(aother)


@pytest.mark.parametrize("make", [write, read, permit])
async def test_while_it_is_being_handed_over(alw: Lockwork, aother: Lockwork, make: Make) -> None:
    for count in range(30):
        async with aother.rwlock("x").write(), aother.semaphore("x", 2, units=2):
            task = asyncio.create_task(take(make(alw)))
            while (
                not (await aother.rwlock("x").ainspect()).waiting + (await aother.semaphore("x", 2).ainspect()).waiting
            ):
                await asyncio.sleep(0)
        await turns(count % 15)
        await cancelled(task)
        await all_free(aother)


async def test_cancelled_downgrade_is_still_sent(alw: Lockwork, aother: Lockwork) -> None:
    for count in range(1, 20):
        grant = await alw.rwlock("x").write().aacquire()
        task = asyncio.create_task(grant.adowngrade())
        await turns(1 + count % 8)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert grant.mode == "read", "from the moment it was asked for, whether the server has heard of it or not"
        state = await aother.rwlock("x").ainspect()
        assert (state.writer, state.readers) == (None, 1)
        await grant.arelease()
        await all_free(aother)
