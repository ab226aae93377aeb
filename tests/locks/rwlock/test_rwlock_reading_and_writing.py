"""Many readers or one writer, in the order they came, so that neither side starves."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
import redis

from indexed import keys_but_indexes
from lockwork import ConfigError, LockTimeout, Lockwork, NotHeld
from processes import until


def waiting(lw: Lockwork, count: int) -> None:
    until(lambda: lw.rwlock("doc").inspect().waiting == count, f"{count} wait")


def test_readers_share_and_a_writer_is_exclusive(lw: Lockwork) -> None:
    doc = lw.rwlock("doc")
    together = threading.Barrier(3)

    def reader() -> None:
        with doc.read():
            together.wait(20)
            together.wait(20)

    readers = [threading.Thread(target=reader) for _ in range(2)]
    for thread in readers:
        thread.start()
    together.wait(20)  # both read now
    state = doc.inspect()
    assert (state.writer, state.readers, state.waiting) == (None, 2, 0)
    assert len(state.named_readers) == 2
    assert doc.write().try_acquire() is None
    with doc.read():
        together.wait(20)
    for thread in readers:
        thread.join()
    with doc.write() as grant:
        assert grant.fence
        assert doc.inspect().writer is not None
        assert threading_try(doc.read().try_acquire) is None
        assert threading_try(doc.write().try_acquire) is None
    assert doc.inspect().writer is None


def threading_try(call: Any) -> Any:
    """Return the result of a call in another thread."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(call()))
    thread.start()
    thread.join()
    return found[0]


async def test_readers_and_writers_never_overlap(alw: Lockwork) -> None:
    doc = alw.rwlock("doc")
    readers = writers = most = 0

    async def read() -> None:
        nonlocal readers, most
        async with doc.read():
            readers += 1
            most = max(most, readers)
            assert not writers
            await asyncio.sleep(0)
            readers -= 1

    async def write() -> None:
        nonlocal writers
        async with doc.write():
            writers += 1
            assert (readers, writers) == (0, 1)
            await asyncio.sleep(0)
            writers -= 1

    await asyncio.gather(*(write() if number % 5 == 4 else read() for number in range(100)))
    assert most > 1
    assert (await doc.ainspect()).readers == 0


def test_readers_behind_a_writer_start_together(lw: Lockwork) -> None:
    """Redisson #1542: readers that had waited for a writer entered one after the other."""
    doc = lw.rwlock("doc")
    together = threading.Barrier(5)

    def reader() -> None:
        with doc.read():
            together.wait(20)

    readers = [threading.Thread(target=reader) for _ in range(5)]
    with doc.write():
        for count, thread in enumerate(readers, 1):
            thread.start()
            waiting(lw, count)
    for thread in readers:
        thread.join()
    assert not together.broken


def test_later_readers_do_not_overtake_a_waiting_writer(lw: Lockwork) -> None:
    """Redisson #5379: as long as readers kept coming, a writer waited for ever."""
    doc = lw.rwlock("doc")
    order: list[str] = []

    def turn(side: Any, name: str) -> None:
        with side:
            order.append(name)

    threads = [
        threading.Thread(target=turn, args=(side, name))
        for side, name in ((doc.write(), "write"), (doc.read(), "read"), (doc.write(), "write again"))
    ]
    with doc.read():
        for count, thread in enumerate(threads, 1):
            thread.start()
            waiting(lw, count)
        assert doc.read().held()
        assert threading_try(doc.read().try_acquire) is None, "a writer waits"
    for thread in threads:
        thread.join()
    assert order == ["write", "read", "write again"]


async def test_stream_of_readers_does_not_starve_a_writer(alw: Lockwork) -> None:
    doc = alw.rwlock("doc")
    written = asyncio.Event()

    async def reader() -> None:
        while not written.is_set():
            async with doc.read():
                await asyncio.sleep(0)

    readers = [asyncio.create_task(reader()) for _ in range(5)]
    while (await doc.ainspect()).readers < 2:
        await asyncio.sleep(0)
    async with asyncio.timeout(20), doc.write():
        written.set()
    await asyncio.gather(*readers)


async def test_stream_of_writers_does_not_starve_a_reader(alw: Lockwork) -> None:
    doc = alw.rwlock("doc")
    seen = asyncio.Event()

    async def writer() -> None:
        while not seen.is_set():
            async with doc.write():
                await asyncio.sleep(0)

    writers = [asyncio.create_task(writer()) for _ in range(3)]
    while (await doc.ainspect()).waiting < 2:
        await asyncio.sleep(0)
    async with asyncio.timeout(20), doc.read():
        seen.set()
    await asyncio.gather(*writers)


def test_writer_that_gives_up_lets_later_readers_in(lw: Lockwork) -> None:
    doc = lw.rwlock("doc")
    entered = threading.Event()

    def writer() -> None:
        with pytest.raises(LockTimeout, match="write lock 'doc'"):
            doc.write().acquire(wait=3)

    def reader() -> None:
        with doc.read():
            entered.set()

    threads = [threading.Thread(target=writer), threading.Thread(target=reader)]
    with doc.read():
        for count, thread in enumerate(threads, 1):
            thread.start()
            waiting(lw, count)
        assert entered.wait(20)
    for thread in threads:
        thread.join()


def test_fence_rises_with_every_grant(lw: Lockwork) -> None:
    doc = lw.rwlock("doc")
    fences = []
    for side in (doc.read(), doc.write(), doc.read(), doc.write()):
        with side as grant:
            fences.append(grant.fence)
    assert fences == sorted(set(fences))


def test_as_a_decorator(lw: Lockwork) -> None:
    @lw.rwlock("doc:{number}").write()
    def save(number: int) -> bool:
        return lw.rwlock(f"doc:{number}").write().held()

    assert save(3)
    assert not lw.rwlock("doc:3").write().held()


def test_rwlock_name_must_be_text(lw: Lockwork) -> None:
    with pytest.raises(ConfigError, match="a read-write lock's name must be text, not 5"):
        lw.rwlock(5)  # type: ignore[arg-type]


def test_release_without_a_grant_is_refused(lw: Lockwork) -> None:
    doc = lw.rwlock("doc")
    with pytest.raises(NotHeld, match="read lock 'doc'"):
        doc.read().release()
    with doc.read(), pytest.raises(NotHeld, match="write lock 'doc'"):
        doc.write().release()


def test_single_key_expires(lw: Lockwork, admin: redis.Redis) -> None:
    doc = lw.rwlock("doc")
    with doc.read():
        (key,) = keys_but_indexes(admin)
        assert key == b"lw:{rw:doc}"
        assert 60 < admin.ttl(key) <= 75
    assert 0 < admin.ttl(key) <= 60


async def test_hundreds_of_readers_start_together(alw: Lockwork) -> None:
    """More readers than one script call grants: the next waiter continues the grants at once."""
    doc = alw.rwlock("doc")
    inside = asyncio.Barrier(250)

    async def reader() -> None:
        async with doc.read():
            await inside.wait()

    async with doc.write():
        crowd = [asyncio.create_task(reader()) for _ in range(250)]
        while (await doc.ainspect()).waiting < 250:
            await asyncio.sleep(0)
    await asyncio.gather(*crowd)
    assert (await doc.ainspect()).readers == 0
