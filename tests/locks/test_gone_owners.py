"""Grants whose owner, a thread or an asyncio task, has ended without releasing them: they are not renewed any more."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lockwork import LockLost, LockTimeout, Lockwork, NotHeld
from lockwork.compat.plain import PlainLock
from lockwork.compat.timestamp import TimestampLock
from lockwork.locks.grant import Grant
from lockwork.locks.handle import Handle
from lockwork.runtime.runtime import Runtime
from processes import until

LEASE = 1.2
"""Seconds."""
IN_TIME = LEASE + 1 + 3
"""Seconds until the next waiter gets the lock of an ended owner, with a margin for a slow machine."""

KINDS: dict[str, Callable[[Lockwork], Handle[Any]]] = {
    "lock": lambda lw: lw.lock("x"),
    "lock kept for a minimum": lambda lw: lw.lock("x", at_least="100ms"),
    "sticky lock": lambda lw: lw.lock("x", sticky=True),
    "read lock": lambda lw: lw.rwlock("x").read(),
    "write lock": lambda lw: lw.rwlock("x").write(),
    "semaphore": lambda lw: lw.semaphore("x", 1),
    "multilock": lambda lw: lw.multilock("x", "y"),
    "queue lock": lambda lw: lw.queue("q").lock("x"),
    "plain lock": lambda lw: PlainLock(lw, "x"),
    "timestamp lock": lambda lw: TimestampLock(lw, "x"),
}
kinds = pytest.mark.parametrize("kind", KINDS)


def waiter_of(kind: str, lw: Lockwork) -> Handle[Any]:
    """Return a handle that can acquire only if the lock of this kind is free."""
    return KINDS[{"read lock": "write lock", "sticky lock": "lock"}.get(kind, kind)](lw)


@pytest.fixture
def app(app_url: str, admin: object) -> Iterator[Lockwork]:
    with Lockwork(app_url, lock_lease=LEASE) as app:
        yield app


@pytest.fixture
def stranger(app_url: str, admin: object) -> Iterator[Lockwork]:
    with Lockwork(app_url, lock_lease=LEASE) as app:
        yield app


def in_thread(function: Callable[[], Any]) -> Any:
    """Call the function in a thread that ends."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(function()), name="short-lived")
    thread.start()
    thread.join()
    return results.pop()


def in_other_thread(function: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


def released(grant: Grant) -> int:
    """Release the grant; return its fence."""
    grant.release()
    return grant.fence


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@kinds
def test_lock_of_an_ended_thread_goes_to_the_next_waiter(
    app: Lockwork, stranger: Lockwork, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    in_thread(lambda: KINDS[kind](app).acquire() is None)
    waiter_of(kind, stranger).acquire(wait=IN_TIME).release()
    told = warnings(caplog)
    assert told
    assert all("is not renewed any more" in text for text in told)
    assert "thread 'short-lived' acquired it, and ended without releasing it" in told[0]


@kinds
async def test_lock_of_an_ended_asyncio_task_goes_to_the_next_waiter(
    app: Lockwork, stranger: Lockwork, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    async def short() -> None:
        await KINDS[kind](app).aacquire()

    await asyncio.create_task(short(), name="short")
    await (await waiter_of(kind, stranger).aacquire(wait=IN_TIME)).arelease()
    assert "asyncio task 'short' acquired it, and ended" in warnings(caplog)[0]


async def test_lock_acquired_within_wait_for_is_not_lost_silently(
    app: Lockwork, caplog: pytest.LogCaptureFixture
) -> None:
    """On Python 3.11, `asyncio.wait_for` runs its coroutine in a separate asyncio task."""
    lost = asyncio.Event()
    loop = asyncio.get_running_loop()
    lock = app.lock("x", on_lost=lambda _: loop.call_soon_threadsafe(lost.set))
    grant = await asyncio.create_task(lock.aacquire(), name="child")
    states = [grant.lost]
    async with asyncio.timeout(IN_TIME):
        await lost.wait()
    assert [*states, grant.lost] == [False, True]
    (warning,) = warnings(caplog)
    assert warning.startswith("lock 'x' is not renewed any more, and ends in ")
    assert "wait= instead of asyncio.wait_for" in warning
    assert "export() and adopt()" in warning
    with pytest.raises(LockLost):
        grant.check()
    with pytest.raises(LockLost):
        await grant.arelease()


async def test_grant_of_an_ended_child_can_be_extended(app: Lockwork, stranger: Lockwork) -> None:
    grant = await asyncio.create_task(app.lock("x").aacquire())
    await grant.aextend("30s")
    with pytest.raises(LockTimeout):
        await stranger.lock("x").aacquire(wait=LEASE * 2)
    await grant.arelease()
    await (await stranger.lock("x").aacquire(wait=0)).arelease()


async def test_exported_grant_of_a_child_is_adopted(
    app: Lockwork, stranger: Lockwork, caplog: pytest.LogCaptureFixture
) -> None:
    async def child() -> str:
        await app.lock("x").aacquire()
        return await app.lock("x").aexport()

    (exported,) = await asyncio.gather(child())
    async with await app.lock("x").aadopt(exported):
        with pytest.raises(LockTimeout):
            await stranger.lock("x").aacquire(wait=LEASE * 2)
    assert not warnings(caplog)


def test_living_owners_keep_their_locks(app: Lockwork, stranger: Lockwork, caplog: pytest.LogCaptureFixture) -> None:
    with ThreadPoolExecutor(1) as pool:
        mine, theirs = app.lock("mine").acquire(), pool.submit(app.lock("theirs").acquire).result()
        for name in ("mine", "theirs"):
            gc.collect()
            with pytest.raises(LockTimeout):
                stranger.lock(name).acquire(wait=LEASE * 1.5)
        mine.release()
        theirs.release()
    assert not warnings(caplog)


def test_idle_sticky_lock_outlives_the_thread_that_used_it(app: Lockwork, caplog: pytest.LogCaptureFixture) -> None:
    lock = app.lock("x", sticky=True)
    fence = in_thread(lambda: released(lock.acquire()))
    with pytest.raises(LockTimeout), app.lock("y"):
        in_other_thread(lambda: app.lock("y").acquire(wait=LEASE * 2))
    assert released(lock.acquire()) == fence
    assert not warnings(caplog)


def test_permit_lasts_while_its_grant_is_referred_to(app: Lockwork, stranger: Lockwork) -> None:
    permit = in_thread(app.semaphore("x", 1).acquire)
    with pytest.raises(LockTimeout):
        stranger.semaphore("x", 1).acquire(wait=LEASE * 2)
    assert not permit.lost
    del permit
    stranger.semaphore("x", 1).acquire(wait=IN_TIME).release()


def test_permit_of_an_ended_thread_is_released_by_another(app: Lockwork, stranger: Lockwork) -> None:
    permit = in_thread(app.semaphore("x", 1).acquire)
    with pytest.raises(LockTimeout):
        stranger.semaphore("x", 1).acquire(wait=LEASE)
    permit.release()
    stranger.semaphore("x", 1).acquire(wait=0).release()
    with pytest.raises(NotHeld):
        permit.release()


def test_permits_of_ended_threads_all_come_back(app: Lockwork, stranger: Lockwork) -> None:
    for _ in range(3):
        in_thread(lambda: app.semaphore("x", 3).acquire() is None)
    stranger.semaphore("x", 3, units=3).acquire(wait=IN_TIME).release()


def books(runtime: Runtime) -> tuple[int, int, int]:
    return len(runtime.holds), len(runtime.live), len(runtime.lost)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_ended_owners_leave_nothing_behind(app: Lockwork, stranger: Lockwork, kind: str) -> None:
    for _ in range(3):
        in_thread(lambda: KINDS[kind](app).acquire() is None)
        waiter_of(kind, stranger).acquire(wait=IN_TIME).release()
    until(lambda: books(app.runtime) == (0, 0, 0), "the engine has noted that the last lease is lost")


def test_lost_hold_of_an_owner_that_ends_later_is_dropped_with_the_next(app: Lockwork) -> None:
    lost = threading.Event()

    def outlive() -> None:
        lost.clear()
        app.lock("x", lease="100ms", on_lost=lambda _: lost.set()).acquire()
        assert lost.wait(IN_TIME)

    for _ in range(4):
        in_thread(outlive)
    until(lambda: max(books(app.runtime)) <= 1, "the engine has dropped all but the last lost hold")
