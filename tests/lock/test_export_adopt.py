"""A grant that moves to another process: held by one of them at a time, under a fence that rises."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from lockwork import ConfigError, Grant, LockLost, Lockwork, NotHeld
from lockwork.locks import passing
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


def test_another_process_goes_on_with_the_lock(lw: Lockwork, url: str) -> None:
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
        threading.Event().wait(2)  # longer than its lease: it is renewed there, and not here
        assert lock.state().fence == fence
        adopter.tell("end")
        assert adopter.line() == "held"
        assert adopter.wait() == 0
        assert not lock.locked()


def test_nobody_gets_in_between(lw: Lockwork, other: Lockwork) -> None:
    """Those who wait go on waiting: the lock is never free on its way."""
    lock = lw.lock("x")
    lock.acquire()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: lw.lock("x", wait=30).acquire())
        until(lambda: lock.state().waiters == 1, "one waits")
        adopted = other.lock("x").adopt(lock.export())
        assert lock.state().fence == adopted.fence
        assert lock.state().waiters == 1
        adopted.release()
        last = waiting.result()
        assert last.fence > adopted.fence
        last.release()


def test_it_is_adopted_once(lw: Lockwork, other: Lockwork) -> None:
    lock = lw.lock("x")
    lock.acquire()
    text = lock.export()
    with other.lock("x").adopt(text) as grant:
        with pytest.raises(LockLost, match="adopted before"):
            lock.adopt(text)
        assert not grant.lost
        assert lock.state().fence == grant.fence
    with pytest.raises(LockLost, match="adopted before"):
        lock.adopt(text)
    assert not lock.locked()


def test_two_who_adopt_at_once(lw: Lockwork, other: Lockwork) -> None:
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
            found = [grant for grant in pool.map(adopt, (lw, other)) if grant is not None]
        assert len(found) == 1
        found[0].release()


def test_after_the_lease(lw: Lockwork, other: Lockwork) -> None:
    lock = lw.lock("x", lease=0.2)
    lock.acquire()
    text = lock.export()
    until(lambda: not lock.locked(), "the lease ended: nobody renews what is on its way")
    with pytest.raises(LockLost, match="ended before the grant was adopted"):
        other.lock("x").adopt(text)
    assert not lock.locked()


def test_a_grant_on_its_way_is_not_renewed(url: str, other: Lockwork) -> None:
    with Lockwork(url, lock_lease=1) as lw:
        lock = lw.lock("x")
        lock.acquire()
        threading.Event().wait(0.5)  # it has been renewed once
        text = lock.export()
        until(lambda: not other.lock("x").locked(), "the lease ended", 5)
        with pytest.raises(LockLost):
            other.lock("x").adopt(text)


def test_after_somebody_else_had_it(lw: Lockwork, other: Lockwork) -> None:
    lock = lw.lock("x")
    lock.acquire()
    text = lock.export()
    assert lock.force_release()
    with lock as grant:
        with pytest.raises(LockLost):
            other.lock("x").adopt(text)
        assert not grant.lost
        assert lock.state().fence == grant.fence


def test_by_the_wrong_lock(lw: Lockwork, other: Lockwork, url: str) -> None:
    lock = lw.lock("x")
    lock.acquire()
    text = lock.export()
    with pytest.raises(ConfigError, match="cannot be adopted by"):
        other.lock("y").adopt(text)
    with Lockwork(url, prefix="else") as elsewhere, pytest.raises(ConfigError, match="cannot be adopted by"):
        elsewhere.lock("x").adopt(text)
    assert not other.lock("y").locked()
    other.lock("x").adopt(text).release()


GARBAGE = [
    "", " ", "x", "====", "W10=", "e30=", "bnVsbA==", "WyJhIl0=", "WzEsMiwzXQ==", "naïve", "\x00", "A" * 10_000,
    "-_" * 40,
]  # fmt: skip


@pytest.mark.parametrize("text", [*GARBAGE, None, 7, b"W10="], ids=repr)
def test_of_garbage(lw: Lockwork, admin: redis.Redis, text: object) -> None:
    with pytest.raises(ConfigError, match=r"not a text that export\(\)"):
        lw.lock("x").adopt(text)  # type: ignore[arg-type]
    assert not admin.keys()


def test_of_a_text_that_was_cut_or_changed(lw: Lockwork, other: Lockwork) -> None:
    lock = lw.lock("x")
    lock.acquire()
    text = lock.export()
    for at in range(len(text)):
        for changed in (text[:at], text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :]):
            try:
                other.lock("x").adopt(changed)
            except (ConfigError, LockLost):
                continue
            # bits that carry nothing: the same grant
            assert passing.read(changed, lock._key) == passing.read(text, lock._key)
            other.lock("x").release()
            return
    other.lock("x").adopt(text).release()


def test_only_by_its_holder(lw: Lockwork) -> None:
    lock = lw.lock("x")
    with pytest.raises(NotHeld):
        lock.export()
    with lock as grant, ThreadPoolExecutor(1) as pool:
        with pytest.raises(NotHeld):
            pool.submit(lock.export).result()
        assert not grant.lost


def test_what_is_lost_cannot_be_exported(lw: Lockwork) -> None:
    lock = lw.lock("x", lease=0.1)
    grant = lock.acquire()
    until(lambda: grant.lost, "the lease ended")
    with pytest.raises(LockLost):
        lock.export()


def test_who_holds_it_already_cannot_adopt(lw: Lockwork) -> None:
    lock = lw.lock("x")
    lock.acquire()
    text = lock.export()
    assert lock.force_release()
    with lock as grant:
        with pytest.raises(ConfigError, match="held by this thread or task already"):
            lock.adopt(text)
        assert grant.depth == 1
    assert not lock.locked()


def test_an_exported_grant_adopted_by_the_thread_that_exported_it(lw: Lockwork) -> None:
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


async def test_a_task_hands_on_to_another(alw: Lockwork) -> None:
    lock = alw.lock("x")
    grant = await lock.aacquire()
    text = await lock.aexport()

    async def heir() -> int:
        async with await lock.aadopt(text) as adopted:
            return adopted.fence

    assert await asyncio.create_task(heir()) > grant.fence
    assert not await lock.alocked()


async def test_a_cancelled_adoption_is_owned_or_undone(alw: Lockwork, url: str) -> None:
    """L6: the text can be used still, or the lock is free; it is not left to an owner that never learned of it."""
    lock = alw.lock("x")
    async with Lockwork(url) as other:
        await other.lock("x").astate()
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
                    assert not await lock.alocked(), f"cancelled after {count} turns, it is held by nobody who knows"
                    outcomes.add("undone")
        assert "undone" in outcomes or "never arrived" in outcomes


def test_the_adopter_chooses_its_own_lease(lw: Lockwork, other: Lockwork) -> None:
    lock = lw.lock("x", lease="1h")
    lock.acquire()
    with other.lock("x", lease=5).adopt(lock.export()) as grant:
        assert grant.remaining <= 5
        assert lock.remaining() <= 5


def test_a_shorter_lease_of_the_adopter_is_known_to_those_who_wait(lw: Lockwork, other: Lockwork) -> None:
    """The adopter dies; who waits behind it had planned to look only at the end of the exporter's lease."""
    lock = lw.lock("x", lease="1h")
    lock.acquire()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: lw.lock("x", wait=30).acquire())
        until(lambda: lock.state().waiters == 1, "one waits")
        adopted = other.lock("x", lease=1).adopt(lock.export())
        last = waiting.result(timeout=5)
        assert last.fence > adopted.fence
        with pytest.raises(LockLost):
            adopted.release()
        last.release()


def test_a_sticky_lock_is_exported_and_adopted(lw: Lockwork, other: Lockwork) -> None:
    lock = lw.lock("x", sticky=True)
    with lock:
        pass
    with lock as grant:
        text = lock.export()
    assert not lw.runtime.keeper.all
    adopter = other.lock("x", sticky=True)
    with adopter.adopt(text) as adopted:
        assert adopted.fence > grant.fence
        assert lock.try_acquire() is None
    with lw.lock("x", wait=10) as last:
        assert last.fence > adopted.fence
