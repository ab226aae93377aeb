"""A quorum lock that is cancelled at any turn of the event loop leaves no grant on any server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress

import pytest

from cancelling import auntil, swept, turns
from lockwork import Lockwork
from lockwork.locks.quorum import Quorum
from quorum_servers import Servers


@pytest.fixture
async def mine(servers: Servers) -> AsyncIterator[Quorum]:
    async with AsyncExitStack() as stack:
        apps = [await stack.enter_async_context(Lockwork(url)) for url in servers.urls]
        for app in apps:
            await app.lock("warm").ainspect()
        yield await stack.enter_async_context(Quorum(apps))


async def left_nothing(quorum: Quorum, servers: Servers, where: str) -> None:
    """Check that calls in flight at the cancellation end without the caller, and that their grants are released."""

    async def free() -> bool:
        return servers.free() and not quorum._calls._late

    await auntil(free, f"{where}: no server has it", 10)
    assert not quorum._calls.holds, where
    for runtime in quorum._calls.runtimes:
        assert not runtime.engine._book._leases, f"{where}: it would be renewed"


async def test_cancelled_block_leaves_no_grant(mine: Quorum, servers: Servers) -> None:
    async def block() -> None:
        async with mine.lock("x", lease="1h"):
            await asyncio.sleep(0)

    async def clean(where: str) -> None:
        await left_nothing(mine, servers, where)

    sweep = await swept(block, clean)
    assert sweep.ended > 5
    assert sweep.finished


async def test_cancelled_block_leaves_no_grant_on_a_hanging_server(mine: Quorum, servers: Servers) -> None:
    """The hanging server may grant the request when it continues, so it must also receive the withdrawal."""

    async def block() -> None:
        async with mine.lock("x", lease="1h"):
            await asyncio.sleep(0)

    async def clean(where: str) -> None:
        servers.resume(0)
        await left_nothing(mine, servers, where)
        servers.stop(0)

    servers.stop(0)
    sweep = await swept(block, clean, most=12)
    servers.resume(0)
    assert sweep.ended


async def test_cancelled_extension_keeps_the_lease_in_agreement(mine: Quorum, servers: Servers) -> None:
    """After a cancelled extension, the holder continues with a deadline that matches the servers'."""

    async def clean(where: str) -> None:
        ends = sorted(int(servers.fields(at)[b"d"]) for at in range(len(servers.urls)))
        assert abs(ends[len(ends) // 2] / 1_000_000 - time.time() - grant.remaining) < 60, where
        await grant.arelease()
        await left_nothing(mine, servers, where)

    ended = 0
    for count in range(30):
        grant = await mine.lock("x", lease="30m").aacquire()
        extending = asyncio.create_task(grant.aextend("1h"))
        await turns(count)
        early = extending.done()
        extending.cancel()
        await asyncio.gather(extending, return_exceptions=True)
        ended += extending.cancelled()
        await clean(f"cancelled at turn {count}")
        if early:
            break
    assert ended > 2


async def test_cancelled_wait_leaves_no_grant(mine: Quorum, servers: Servers) -> None:
    async with AsyncExitStack() as stack:
        apps = [await stack.enter_async_context(Lockwork(url)) for url in servers.urls]
        other = await stack.enter_async_context(Quorum(apps))
        grant = await other.lock("x", lease="1h").aacquire()

        async def clean(where: str) -> None:
            assert not grant.lost, where
            assert not mine._calls.holds, where

        assert (await swept(mine.lock("x", lease="1h").aacquire, clean, most=25)).ended == 25
        with suppress(asyncio.CancelledError):
            await grant.arelease()
    await left_nothing(mine, servers, "after all")
