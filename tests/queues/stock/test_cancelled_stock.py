"""Reservations cancelled at any turn of the loop leave no unknown reservation and no waiter."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
import redis

from cancelling import auntil, nothing_here, swept
from lockwork import Lockwork
from lockwork.protocol.stock.stock import Reservation


@pytest.fixture
async def rival(url: str, admin: redis.Redis) -> AsyncIterator[Lockwork]:
    """Another app, which simulates another process."""
    async with Lockwork(url) as app:
        yield app


@pytest.mark.parametrize("wait", [0, None], ids=["at once", "waiting"])
async def test_cancelled_reservation_holds_no_unknown_units(alw: Lockwork, rival: Lockwork, wait: int | None) -> None:
    """The caller has the reservation, or the units are on sale."""
    phones = alw.stock("phone", 1)
    await phones.ainspect()

    got: list[Reservation] = []

    async def reserve() -> None:
        got.append(await phones.areserve("a", hold="1h", wait=wait))

    async def clean(where: str) -> None:
        assert (await rival.stock("phone", 1).ainspect()).reserved == len(got), where
        nothing_here(alw, where)
        for held in got:
            await phones.arelease(held)
        got.clear()

    sweep = await swept(reserve, clean)
    assert sweep.ended > 2
    assert sweep.finished


async def test_cancelled_call_keeps_earlier_reservation_of_its_key(alw: Lockwork, rival: Lockwork) -> None:
    phones = alw.stock("phone", 1)
    first = await rival.stock("phone", 1).areserve("a", hold="1h", key="order-1")

    async def clean(where: str) -> None:
        assert await rival.stock("phone", 1).aget(first) is not None, where
        nothing_here(alw, where)

    assert (await swept(partial(phones.areserve, "a", key="order-1"), clean)).ended > 1


async def test_cancelled_reservation_with_a_job_is_atomic(alw: Lockwork, rival: Lockwork) -> None:
    """Both the reservation and the job exist, or neither."""

    @alw.task(queue="orders")
    def place(buyer: str) -> None: ...

    phones, other = alw.stock("phone", 1000, queue="orders"), rival.stock("phone", 1000, queue="orders")
    await phones.ainspect()

    async def clean(where: str) -> None:
        status = await phones.ainspect()  # sent after the call on the same connection
        assert (await rival.queue("orders").astatus()).enqueued == status.reserved, where
        nothing_here(alw, where)

    assert (await swept(lambda: phones.areserve("a", hold="1h", enqueue=place.call("a")), clean)).ended > 1
    assert (await other.ainspect()).reserved


async def test_cancelled_waiting_buyer_leaves_no_waiter(alw: Lockwork, rival: Lockwork, admin: redis.Redis) -> None:
    phones = alw.stock("phone", 1)
    await rival.stock("phone", 1).areserve("x", hold="1h")

    async def clean(where: str) -> None:
        assert not await _line(admin), where
        nothing_here(alw, where)

    assert (await swept(partial(phones.areserve, "a", wait=None), clean, most=40)).ended == 40


async def test_buyer_cancelled_during_a_release_loses_no_units(
    alw: Lockwork, rival: Lockwork, admin: redis.Redis
) -> None:
    phones, other = alw.stock("phone", 1), rival.stock("phone", 1)
    held = await other.areserve("x", hold="1h")
    got: list[Reservation] = []

    async def reserve() -> None:
        got.append(await phones.areserve("a", hold="1h", wait=None))

    async def comes() -> None:
        await auntil(partial(_line, admin), "it waits")
        await other.arelease(held)

    async def clean(where: str) -> None:
        nonlocal held
        status = await other.ainspect()
        assert status.reserved == len(got), where
        assert not await _line(admin), where
        nothing_here(alw, where)
        if got:
            await other.arelease(got.pop())
        held = await other.areserve("x", hold="1h")

    sweep = await swept(reserve, clean, ready=comes, most=400)
    assert sweep.ended
    assert sweep.finished


async def _line(admin: redis.Redis) -> int:
    await asyncio.sleep(0)
    fields: Any = admin.hkeys("lw:{q:default}:stock:phone")
    return sum(field.startswith(b"w") for field in fields)
