"""Cancellation of adopt, force-release and extend at any turn of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest
import redis

from cancelling import nothing_here, swept, turns
from locks.kinds import HANDLES
from lockwork import LockLost, Lockwork
from lockwork.locks.handle import Handle
from lockwork.runtime import drive


@pytest.fixture
async def rival(url: str, admin: redis.Redis) -> AsyncIterator[Lockwork]:
    """Another app, as another process would be."""
    async with Lockwork(url) as app:
        await app.lock("warm").ainspect()
        yield app


async def test_cancelled_adoption_leaves_the_lock_free_or_adoptable(alw: Lockwork, rival: Lockwork) -> None:
    """Afterwards the lock is free, or still to be adopted, or it was adopted and released."""
    lock, other = alw.lock("x", lease="1h"), rival.lock("x", lease="1h")
    exported: list[str] = []

    async def adopt() -> None:
        async with await lock.aadopt(exported[-1]):
            await asyncio.sleep(0)

    async def export() -> None:
        await other.aacquire()
        exported.append(await other.aexport())

    async def clean(where: str) -> None:
        with suppress(LockLost):
            await (await other.aadopt(exported.pop())).arelease()
        state = await other.ainspect()
        assert (state.owner, state.waiters) == (None, 0), where
        nothing_here(alw, where)
        await export()

    await export()
    await alw.lock("warm").ainspect()
    sweep = await swept(adopt, clean)
    assert sweep.ended > 4
    assert sweep.finished


async def test_cancelled_export_ends_the_lock(alw: Lockwork, rival: Lockwork) -> None:
    """Without the text, no caller can adopt the lock, so its lease ends early."""
    lock = alw.lock("x", lease="1h")

    async def export() -> None:
        await lock.aacquire()
        try:
            await lock.aadopt(await lock.aexport())
        finally:
            if lock.held():
                await lock.arelease()

    async def clean(where: str) -> None:
        assert await rival.lock("x").aowner() is None, where
        nothing_here(alw, where)

    await alw.lock("warm").ainspect()
    sweep = await swept(export, clean)
    assert sweep.ended > 4
    assert sweep.finished


@pytest.mark.parametrize("kind", ["lock", "semaphore", "rwlock"])
async def test_cancelled_force_release_leaves_the_lock_acquirable(alw: Lockwork, rival: Lockwork, kind: str) -> None:
    """The holder still has the lock or has lost it; the next caller can acquire it."""
    taking: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
        "lock": lambda: alw.lock("x").aforce_release(),
        "semaphore": lambda: alw.semaphore("x", permits=1).aforce_release(),
        "rwlock": lambda: alw.rwlock("x").aforce_release(),
    }
    handle = HANDLES[kind](rival, "x")
    grant = await handle.aacquire()

    async def clean(where: str) -> None:
        nonlocal grant
        nothing_here(alw, where)
        with suppress(LockLost):
            await grant.arelease()
        taken = await handle.atry_acquire()
        assert taken is not None, where
        grant = taken

    await alw.lock("warm").ainspect()
    sweep = await swept(taking[kind], clean)
    with suppress(LockLost):
        await grant.arelease()
    assert sweep.ended > 1
    assert sweep.finished


@pytest.mark.parametrize("kind", ["lock", "semaphore", "rwlock", "multilock"])
async def test_cancelled_extension_keeps_the_lease_in_agreement_with_the_server(
    alw: Lockwork, rival: Lockwork, kind: str
) -> None:
    """Otherwise the holder would stop at the old end of its lease, and the server would keep the lock until the new
    one.
    """
    await alw.lock("warm").ainspect()
    made: dict[str, Callable[[], Handle[Any]]] = {
        "lock": lambda: alw.lock("x", lease=10),
        "semaphore": lambda: alw.semaphore("x", 1, lease=10),
        "rwlock": lambda: alw.rwlock("x", lease=10).write(),
        "multilock": lambda: alw.multilock("x", "y", lease=10),
    }
    lock = made[kind]()

    async def lasts() -> float:
        if kind == "semaphore":
            return (await alw.semaphore("x", 1).ainspect()).holders[0].expires_in
        if kind == "rwlock":
            writer = (await alw.rwlock("x").ainspect()).writer
            assert writer is not None
            return writer.expires_in
        return await alw.lock("x").aremaining()

    ended = 0
    for count in range(20):
        grant = await lock.aacquire()
        extending = asyncio.create_task(grant.aextend("1h"))
        await turns(count)
        early = extending.done()
        extending.cancel()
        await asyncio.gather(extending, return_exceptions=True)
        ended += extending.cancelled()
        assert abs(await lasts() - grant.remaining) < 5, f"cancelled at turn {count}"
        await grant.arelease()
        nothing_here(alw, f"cancelled at turn {count}")
        if early:
            break
    assert ended > 2


async def test_sweep_detects_a_skipped_clean_up(
    alw: Lockwork, rival: Lockwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def skipped(*_: object) -> None: ...

    async def clean(where: str) -> None:
        state = await rival.lock("x").ainspect()
        assert (state.owner, state.waiters) == (None, 0), where
        nothing_here(alw, where)

    await alw.lock("x").ainspect()
    monkeypatch.setattr(drive, "_clean_up", skipped)
    with pytest.raises(AssertionError, match="cancelled at turn"):
        await swept(alw.lock("x", lease="1h").aacquire, clean)
