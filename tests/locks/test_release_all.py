"""Release of all entries of one lock, or of all locks of the process."""

from __future__ import annotations

import asyncio
import threading

import pytest

from lockwork import LockLost, Lockwork, NotHeld
from lockwork.errors import BlockingCallError
from processes import until


def test_reentered_lock_is_released_at_once(lw: Lockwork) -> None:
    lock = lw.lock("x")
    for _ in range(5):
        lock.acquire()
    lock.release_all()
    assert not lock.held()
    assert not lock.locked()
    with pytest.raises(NotHeld):
        lock.release()


async def test_lock_reentered_by_a_task_is_released_at_once(alw: Lockwork) -> None:
    lock = alw.lock("x")
    for _ in range(5):
        await lock.aacquire()
    await lock.arelease_all()
    assert not lock.held()
    assert not await lock.alocked()
    with pytest.raises(NotHeld):
        await lock.arelease()


def test_inside_nested_bodies(lw: Lockwork) -> None:
    lock = lw.lock("x")
    with lock as grant, lw.lock("x"):
        lock.release_all()
        assert grant.lost
        assert not lock.locked()
    assert not lock.held()
    with lock:
        assert lock.locked()
    assert not lock.locked()


def test_release_all_by_another_thread_is_refused(lw: Lockwork) -> None:
    lock = lw.lock("x")
    with lock as grant:
        failed: list[BaseException] = []

        def other() -> None:
            try:
                lock.release_all()
            except NotHeld as error:
                failed.append(error)

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert len(failed) == 1
        assert not grant.lost
    with pytest.raises(NotHeld):
        lock.release_all()


def test_holder_is_notified_of_lost_lease(lw: Lockwork) -> None:
    lock = lw.lock("x", lease=0.1)
    grant = lock.acquire()
    until(lambda: grant.lost, "the lease ended")
    with pytest.raises(LockLost):
        lock.release_all()


def test_release_all_of_the_app_releases_the_locks_of_every_thread(lw: Lockwork) -> None:
    ready, go = threading.Barrier(4), threading.Event()
    ended: list[str] = []

    def hold(number: int) -> None:
        try:
            with lw.lock(f"x{number}") as grant:
                ready.wait()
                go.wait()
                assert grant.lost
            ended.append("quietly")
        except LockLost:
            ended.append("lost")

    threads = [threading.Thread(target=hold, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    ready.wait()
    lw.lock("mine").acquire()
    with lw.lock("kept", sticky=True):
        pass
    assert lw.lock("kept").locked()
    assert lw.release_all() == 4
    for name in ("x0", "x1", "x2", "mine", "kept"):
        assert not lw.lock(name).locked(), name
    go.set()
    for thread in threads:
        thread.join()
    assert len(ended) == 3
    assert lw.release_all() == 0


async def test_arelease_all_of_the_app_releases_the_locks_of_every_task(alw: Lockwork) -> None:
    go = asyncio.Event()
    held = 0

    async def hold(number: int) -> None:
        nonlocal held
        async with alw.lock(f"x{number}") as grant:
            held += 1
            await go.wait()
            assert grant.lost

    tasks = [asyncio.create_task(hold(number)) for number in range(3)]
    while held < 3:
        await asyncio.sleep(0)
    async with alw.lock("kept", sticky=True):
        pass
    assert await alw.arelease_all() == 3
    for name in ("x0", "x1", "x2", "kept"):
        assert not await alw.lock(name).alocked(), name
    go.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert await alw.arelease_all() == 0


def test_release_all_keeps_locks_of_other_callers(lw: Lockwork, url: str) -> None:
    with Lockwork(url) as other, other.lock("x") as grant:
        assert lw.release_all() == 0
        assert not grant.lost
        assert lw.lock("x").inspect().fence == grant.fence


async def test_sync_release_all_raises_in_a_loop_even_without_locks(alw: Lockwork) -> None:
    with pytest.raises(BlockingCallError):
        alw.release_all()
    assert await alw.arelease_all() == 0
