"""Calls to a delay queue, cancelled at any turn of the loop: each is applied or not, without loss or duplicates."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
import redis

from cancelling import auntil, nothing_here, swept
from lockwork import Lockwork

LINE = "lw:{dq:orders}:waiters"


@pytest.fixture
async def rival(url: str, admin: redis.Redis) -> AsyncIterator[Lockwork]:
    """Another app, which simulates another process."""
    async with Lockwork(url) as app:
        yield app


async def test_cancelled_pop_loses_no_entry(alw: Lockwork, rival: Lockwork) -> None:
    """The popped entries are due again, or were returned."""
    queue = alw.delay_queue("orders")
    names = [f"{number:04d}" for number in range(1200)]
    await queue.aadd(names)
    taken: list[str] = []

    async def pop() -> None:
        taken.extend(entry.id for entry in await queue.apop(1100))

    async def clean(where: str) -> None:
        remaining = [entry.id for entry in await rival.delay_queue("orders").apeek(1200)]
        assert sorted(remaining + taken) == names, where
        nothing_here(alw, where)

    sweep = await swept(pop, clean)
    assert sweep.ended > 2
    assert taken


async def test_cancelled_waiting_pop_leaves_no_waiter(alw: Lockwork, rival: Lockwork, admin: redis.Redis) -> None:
    queue = alw.delay_queue("orders")
    await queue.alen()

    async def clean(where: str) -> None:
        assert not await _line(admin), where
        nothing_here(alw, where)

    assert (await swept(partial(queue.apop, wait=None), clean, most=40)).ended == 40


async def test_waiting_pop_cancelled_during_an_add_loses_no_entry(
    alw: Lockwork, rival: Lockwork, admin: redis.Redis
) -> None:
    queue, other = alw.delay_queue("orders"), rival.delay_queue("orders")
    taken: list[str] = []
    count = 0

    async def pop() -> None:
        taken.extend(entry.id for entry in await queue.apop(wait=None))

    async def comes() -> None:
        nonlocal count
        await auntil(partial(_line, admin), "it waits")
        await other.aadd(f"{count}")
        count += 1

    async def clean(where: str) -> None:
        remaining = [entry.id for entry in await other.apeek(10)]
        assert len(remaining + taken) == 1, where
        assert not await _line(admin), where
        nothing_here(alw, where)
        await other.aclear()
        taken.clear()

    sweep = await swept(pop, clean, ready=comes, most=400)
    assert sweep.ended
    assert sweep.finished


async def test_cancelled_add_and_clear_are_atomic(alw: Lockwork) -> None:
    """A batch is added as a whole or not at any step."""
    queue = alw.delay_queue("orders")
    await queue.alen()

    async def clean(where: str) -> None:
        count = await queue.alen()  # sent after the call on the same connection
        assert count in (0, 100), where
        nothing_here(alw, where)
        if count:
            sweep = await swept(queue.aclear, all_or_none)
            assert sweep.finished
        await queue.aclear()

    async def all_or_none(where: str) -> None:
        assert await queue.alen() in (0, 100), where
        nothing_here(alw, where)

    assert (await swept(partial(queue.aadd, [f"{at}" for at in range(100)], "1h"), clean)).ended > 1


async def _line(admin: redis.Redis) -> int:
    await asyncio.sleep(0)
    count: Any = admin.zcard(LINE)
    return int(count)
