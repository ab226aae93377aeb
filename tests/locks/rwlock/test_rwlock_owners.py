"""Re-entry, both sides at once, downgrades, and refused calls; bugs of other libraries by name."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from lockwork import LockLost, LockTimeout, Lockwork, NotHeld
from lockwork.errors import WouldDeadlock
from lockwork.locks.rwlock import RWHold
from processes import script, until

READ = """
import sys
from lockwork import Lockwork
with Lockwork(lock_lease=1) as lw:
    with lw.rwlock("doc").read():
        print("reads", flush=True)
        sys.stdin.readline()
"""


def readers(lw: Lockwork) -> int:
    return lw.rwlock("doc").inspect().readers


def test_sides_are_reentrant(lw: Lockwork) -> None:
    doc = lw.rwlock("doc")
    for side in (doc.read(), doc.write()):
        with side as outer:
            with side as inner:
                assert inner is outer
                assert inner.depth == 2
            assert side.held()
        assert not side.held()
    assert readers(lw) == 0


def test_writer_may_read_and_stays_a_reader_after_writing(lw: Lockwork) -> None:
    """Redisson #4217: a writer that continued to read after it stopped writing kept other readers out."""
    doc = lw.rwlock("doc")
    entered = threading.Event()

    def other() -> None:
        with doc.read():
            entered.set()

    doc.write().acquire()
    grant = doc.read().acquire()
    assert doc.read().held()
    assert doc.write().held()
    thread = threading.Thread(target=other)
    thread.start()
    until(lambda: doc.inspect().waiting == 1, "a reader waits")
    doc.write().release()
    assert entered.wait(20)
    thread.join()
    assert not doc.write().held()
    assert doc.read().held()
    assert not grant.lost
    assert readers(lw) == 1
    doc.read().release()
    assert readers(lw) == 0


def test_releasing_the_read_side_keeps_the_write_grant(lw: Lockwork) -> None:
    """Redisson #891: a writer's own read unlock deleted the whole lock."""
    doc = lw.rwlock("doc")
    with doc.write() as grant:
        with doc.read():
            pass
        assert not grant.lost
        assert doc.inspect().writer is not None
        assert doc.write().held()
        assert not doc.read().held()
    assert doc.inspect().writer is None


def test_downgrade_lets_waiting_readers_in_at_once(lw: Lockwork) -> None:
    doc = lw.rwlock("doc")
    together = threading.Barrier(3)

    def reader() -> None:
        with doc.read():
            together.wait(20)

    threads = [threading.Thread(target=reader) for _ in range(2)]
    with doc.write() as grant:
        for count, thread in enumerate(threads, 1):
            thread.start()
            until(lambda count=count: doc.inspect().waiting == count, "it waits")  # type: ignore[misc]
        fence = grant.fence
        grant.downgrade()
        assert [grant.mode, grant.fence] == ["read", fence]
        together.wait(20)
        for thread in threads:
            thread.join()
        grant.check()
        assert readers(lw) == 1
        grant.downgrade()
        with pytest.raises(WouldDeadlock):
            doc.write().acquire()
    assert grant.lost
    assert readers(lw) == 0


def test_release_by_another_thread_during_a_downgrade_is_noticed(lw: Lockwork, monkeypatch: pytest.MonkeyPatch) -> None:
    """The release comes right after the downgrade's check of the hold."""
    grant, check = lw.rwlock("doc").write().acquire(), RWHold.check

    def checked(held: RWHold) -> None:
        check(held)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(held.release).result()

    monkeypatch.setattr(RWHold, "check", checked)
    with pytest.raises(LockLost, match="before it was downgraded"):
        grant.downgrade()
    assert lw.rwlock("doc").inspect().writer is None


async def test_downgrade_by_a_task(alw: Lockwork) -> None:
    doc = alw.rwlock("doc")
    async with doc.write() as grant:
        waiting = asyncio.create_task(doc.read().aacquire())
        while (await doc.ainspect()).waiting < 1:
            await asyncio.sleep(0)
        await grant.adowngrade()
        other = await waiting
        assert (await doc.ainspect()).readers == 2
        await other.arelease()
    assert (await doc.ainspect()).readers == 0


def test_upgrade_is_refused_at_once(lw: Lockwork) -> None:
    """Redisson #4796: a reader that wanted to write waited for itself."""
    doc = lw.rwlock("doc")
    with doc.read():
        with pytest.raises(WouldDeadlock, match="release the read lock first"):
            doc.write().acquire()
        with pytest.raises(WouldDeadlock):
            doc.write().try_acquire()
        assert doc.read().held()
        assert doc.inspect().waiting == 0
    with doc.write():
        pass


def test_release_by_another_app_is_refused(lw: Lockwork, url: str) -> None:
    """Redisson 3.44: an unlock of a read-write lock did not check its caller."""
    doc = lw.rwlock("doc")
    with doc.write(), Lockwork(url) as other:
        with pytest.raises(NotHeld):
            other.rwlock("doc").write().release()
        with pytest.raises(NotHeld):
            other.rwlock("doc").read().release()
        with pytest.raises(LockTimeout):
            other.rwlock("doc").read().acquire(wait=0)
        assert doc.inspect().writer is not None


def test_released_reader_keeps_other_readers(lw: Lockwork, url: str) -> None:
    """Redisson: a read unlock missed the time-out keys of another reader, and deleted the lock under that reader."""
    doc = lw.rwlock("doc")
    with doc.read() as mine:
        with script(READ, url=url) as process:
            assert process.line() == "reads"
            assert readers(lw) == 2
            process.tell("enough")
            assert process.wait() == 0
        assert readers(lw) == 1
        assert not mine.lost
        with Lockwork(url) as other:
            assert other.rwlock("doc").write().try_acquire() is None


def test_entering_again_does_not_add_to_the_lease(lw: Lockwork, admin: redis.Redis) -> None:
    """Redisson: each write re-entry added a whole lease to the remaining time; #1110: a shorter lease cut it."""
    side = lw.rwlock("doc", lease=10).write()
    with side as grant:
        before = grant.remaining
        for _ in range(5):
            lw.rwlock("doc", lease=2).write().acquire()
        assert grant.remaining <= before
        assert grant.remaining > 5
        assert admin.pttl("lw:{rw:doc}") <= 75_000
        lw.rwlock("doc").write().release_all()
        with pytest.raises(NotHeld):
            side.release()


def test_release_all_of_one_side_keeps_the_other(lw: Lockwork) -> None:
    doc = lw.rwlock("doc")
    for _ in range(3):
        doc.write().acquire()
    doc.read().acquire()
    doc.write().release_all()
    assert doc.read().held()
    assert not doc.write().held()
    assert readers(lw) == 1
    doc.read().release_all()
    assert readers(lw) == 0


def test_extend(lw: Lockwork) -> None:
    side = lw.rwlock("doc", lease=2).read()
    with side as grant:
        side.extend(30)
        assert grant.remaining > 20
        grant.extend(60)
        assert lw.rwlock("doc").inspect().named_readers[0].expires_in > 50


def test_dead_reader_delays_a_writer_by_its_lease(lw: Lockwork, url: str) -> None:
    doc = lw.rwlock("doc")
    with script(READ, url=url) as process:
        assert process.line() == "reads"
        assert doc.write().try_acquire() is None
    with doc.write() as grant:
        assert not grant.lost


def test_force_release_returns_the_former_holders(lw: Lockwork, url: str) -> None:
    doc = lw.rwlock("doc")
    with Lockwork(url) as other:
        lost = threading.Event()
        grant = other.rwlock("doc", on_lost=lambda _: lost.set(), tags=["import"]).write().acquire()
        writer = doc.inspect().writer
        assert writer is not None
        assert writer.holder.tags == ("import",)
        assert doc.force_release() == 1
        with doc.write():
            assert lost.wait(20)
            with pytest.raises(LockLost):
                grant.release()
            assert doc.write().held()
    assert doc.force_release() == 0


def test_lost_lease_raises_on_exit(lw: Lockwork) -> None:
    doc = lw.rwlock("doc", lease=0.1)
    with pytest.raises(LockLost, match="read lock 'doc'"), doc.read() as grant:
        until(lambda: grant.lost, "the lease ended")


async def test_body_is_cancelled_when_its_lease_is_lost(alw: Lockwork) -> None:
    with pytest.raises(LockLost, match="write lock 'doc'"):
        async with alw.rwlock("doc", lease=0.2).write():
            await asyncio.Event().wait()
