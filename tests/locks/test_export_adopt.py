"""A grant that moves to another process: one process holds it at a time, and the fence rises."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from lockwork import Grant, LockLost, Lockwork, NotHeld
from processes import script, until

ADOPTER = """
import sys
from lockwork import LockLost, Lockwork
with Lockwork(lock_lease=1) as lw:
    try:
        with lw.lock("x").adopt(sys.stdin.readline().strip()) as grant:
            print(grant.fence, flush=True)
            sys.stdin.readline()
            print("lost" if grant.lost else "held", flush=True)
    except LockLost:
        print("LockLost", flush=True)
"""


def test_another_process_adopts_and_renews_the_lock(lw: Lockwork, url: str) -> None:
    with script(ADOPTER, url=url) as adopter:
        lock = lw.lock("x")
        grant = lock.acquire()
        text = lock.export()
        assert grant.lost
        assert not lock.held()
        assert lock.try_acquire() is None
        adopter.tell(text)
        fence = int(adopter.line())
        assert fence > grant.fence
        owner = lock.owner()
        assert owner is not None
        assert owner.pid == adopter.pid
        threading.Event().wait(2)  # longer than the lease, so the adopter renews it
        assert lock.inspect().fence == fence
        adopter.tell("end")
        assert adopter.line() == "held"
        assert adopter.wait() == 0
        assert not lock.locked()


def test_no_caller_is_granted_between_export_and_adopt(lw: Lockwork, other: Lockwork) -> None:
    """Waiters continue to wait: the lock is never free during the transfer."""
    lock = lw.lock("x")
    lock.acquire()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: lw.lock("x", wait=30).acquire())
        until(lambda: lock.inspect().waiters == 1, "one waits")
        adopted = other.lock("x").adopt(lock.export())
        assert lock.inspect().fence == adopted.fence
        assert lock.inspect().waiters == 1
        adopted.release()
        last = waiting.result()
        assert last.fence > adopted.fence
        last.release()


def test_exported_text_is_adopted_once(lw: Lockwork, other: Lockwork) -> None:
    lock = lw.lock("x")
    lock.acquire()
    text = lock.export()
    with other.lock("x").adopt(text) as grant:
        with pytest.raises(LockLost, match="already adopted"):
            lock.adopt(text)
        assert not grant.lost
        assert lock.inspect().fence == grant.fence
    with pytest.raises(LockLost, match="already adopted"):
        lock.adopt(text)
    assert not lock.locked()


def test_one_concurrent_adopter_succeeds(lw: Lockwork, other: Lockwork) -> None:
    for _ in range(20):
        lock = lw.lock("x")
        lock.acquire()
        text = lock.export()
        start = threading.Barrier(2)

        def adopt(app: Lockwork, text: str = text, start: threading.Barrier = start) -> Grant | None:
            start.wait()
            try:
                return app.lock("x").adopt(text)
            except LockLost:
                return None

        with ThreadPoolExecutor(2) as pool:
            grants = [grant for grant in pool.map(adopt, (lw, other)) if grant is not None]
        assert len(grants) == 1
        grants[0].release()


def test_exporting_thread_can_adopt_its_own_export(lw: Lockwork) -> None:
    lock = lw.lock("x")
    first = lock.acquire()
    with lock.adopt(lock.export()) as second:
        assert first.lost
        assert not second.lost
        assert second.fence > first.fence
    assert not lock.locked()


def test_inside_a_body(lw: Lockwork, other: Lockwork) -> None:
    lock = lw.lock("x")
    with lock as grant:
        text = lock.export()
        assert grant.lost
        with pytest.raises(NotHeld):
            lock.release()
    with other.lock("x").adopt(text) as adopted:
        assert not adopted.lost
    with lock:
        assert lock.held()
    assert not lock.locked()


async def test_inside_the_body_of_a_task(alw: Lockwork, url: str) -> None:
    lock = alw.lock("x")
    async with Lockwork(url) as other:
        async with lock:
            async with await other.lock("x").aadopt(await lock.aexport()) as adopted:
                assert not adopted.lost
                assert not lock.held()
            assert not await lock.alocked()
        async with lock:
            assert lock.held()


async def test_coroutine_transfers_a_lock_to_another(alw: Lockwork) -> None:
    lock = alw.lock("x")
    grant = await lock.aacquire()
    text = await lock.aexport()

    async def heir() -> int:
        async with await lock.aadopt(text) as adopted:
            return adopted.fence

    assert await asyncio.create_task(heir()) > grant.fence
    assert not await lock.alocked()


async def test_cancelled_adoption_is_owned_or_undone(alw: Lockwork, url: str) -> None:
    """L6: the text is still valid, or the lock is free. No lock stays with an owner that does not know about it."""
    lock = alw.lock("x")
    async with Lockwork(url) as other:
        await other.lock("x").ainspect()
        outcomes = set()
        for count in range(12):
            await lock.aacquire()
            text = await lock.aexport()
            task = asyncio.create_task(other.lock("x").aadopt(text))
            for _ in range(count):
                await asyncio.sleep(0)
            task.cancel()
            try:
                await (await task).arelease()
                outcomes.add("owned")
            except asyncio.CancelledError:
                try:
                    await (await lock.aadopt(text)).arelease()
                    outcomes.add("never arrived")
                except LockLost:
                    assert not await lock.alocked(), f"cancelled after {count} turns, it is held without an owner"
                    outcomes.add("undone")
        assert "undone" in outcomes or "never arrived" in outcomes


def test_adopter_chooses_its_own_lease(lw: Lockwork, other: Lockwork) -> None:
    lock = lw.lock("x", lease="1h")
    lock.acquire()
    with other.lock("x", lease=5).adopt(lock.export()) as grant:
        assert grant.remaining <= 5
        assert lock.remaining() <= 5


def test_waiters_see_shorter_lease_of_adopter(lw: Lockwork, other: Lockwork) -> None:
    """The adopter dies. Without a notification, the waiter would check only at the end of the exporter's lease."""
    lock = lw.lock("x", lease="1h")
    lock.acquire()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: lw.lock("x", wait=30).acquire())
        until(lambda: lock.inspect().waiters == 1, "one waits")
        adopted = other.lock("x", lease=1).adopt(lock.export())
        last = waiting.result(timeout=5)
        assert last.fence > adopted.fence
        with pytest.raises(LockLost):
            adopted.release()
        last.release()


def test_sticky_lock_is_exported_and_adopted(lw: Lockwork, other: Lockwork) -> None:
    lock = lw.lock("x", sticky=True)
    with lock:
        pass
    with lock as grant:
        text = lock.export()
    assert not lw.runtime.sticky_cache.all
    adopter = other.lock("x", sticky=True)
    with adopter.adopt(text) as adopted:
        assert adopted.fence > grant.fence
        assert lock.try_acquire() is None
    with lw.lock("x", wait=10) as last:
        assert last.fence > adopted.fence
