"""A grant that needs replicas is released again if too few confirm it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from lockwork import Lockwork
from lockwork.errors import ConfigError, NotReplicated
from processes import until
from replicated import replicated


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, redis.Redis]]:
    """Yield a primary's URL, and a client of its only replica."""
    with replicated(tmp_path_factory.mktemp("pair")) as made:
        yield made.url, made.replica


def test_grant_reaches_the_replica(pair: tuple[str, redis.Redis]) -> None:
    url, replica = pair
    with Lockwork(url) as lw, lw.lock("a", replicas=1) as grant:
        assert int(replica.hget("lw:{lock:a}", "f") or 0) == grant.fence


async def test_async_grant_reaches_the_replica(pair: tuple[str, redis.Redis]) -> None:
    url, replica = pair
    async with Lockwork(url) as lw, lw.lock("b", replicas=1) as grant:
        assert int(replica.hget("lw:{lock:b}", "f") or 0) == grant.fence


def test_too_few_replicas_release_the_lock(pair: tuple[str, redis.Redis]) -> None:
    with Lockwork(pair[0]) as lw:
        with pytest.raises(NotReplicated, match="[01] of 2 replicas"):
            lw.lock("c", replicas=2).acquire()
        assert not lw.lock("c").locked(), "the grant that too few have was given back"
        with lw.lock("c"):
            pass


def test_inspect_waits_for_the_replicas(pair: tuple[str, redis.Redis]) -> None:
    """An acquire without a wait for the lock still waits for replicas."""
    with Lockwork(pair[0]) as lw, pytest.raises(NotReplicated):
        lw.lock("h", replicas=2).try_acquire()


async def test_too_few_replicas_for_tasks(pair: tuple[str, redis.Redis]) -> None:
    async with Lockwork(pair[0]) as lw:
        with pytest.raises(NotReplicated, match="1 of 2 replicas"):
            await lw.lock("d", replicas=2).aacquire()
        assert not await lw.lock("d").alocked()


def test_transferred_lock_waits_for_replicas(pair: tuple[str, redis.Redis]) -> None:
    """Another caller's release wrote the hand-over, so the new holder waits for replicas itself."""
    url, replica = pair
    with Lockwork(url) as lw, Lockwork(url) as other:
        first = other.lock("e").acquire()
        lock = lw.lock("e", replicas=1, wait=10)
        import threading

        got: list[int] = []

        def wait() -> None:
            grant = lock.acquire()
            got.append(grant.fence)
            assert int(replica.hget("lw:{lock:e}", "f") or 0) == grant.fence
            lock.release()

        thread = threading.Thread(target=wait)
        thread.start()
        until(lambda: other.lock("e").inspect().waiters == 1, "it waits")
        other.lock("e").release()
        thread.join(10)
        assert got
        assert got[0] > first.fence


async def test_call_that_waits_for_replicas_delays_no_other(pair: tuple[str, redis.Redis]) -> None:
    import asyncio

    async with Lockwork(pair[0]) as lw:
        await lw.lock("f").aacquire()
        slow = asyncio.create_task(lw.lock("g", replicas=5).aacquire())
        for _ in range(50):
            await lw.lock("f").ainspect()
        assert not slow.done(), "fifty calls went through while one waited for replicas"
        with pytest.raises(NotReplicated):
            await slow
        await lw.lock("f").arelease()


@pytest.mark.parametrize("replicas", [-1, True, 1.5, "1", 101])
def test_invalid_number_of_replicas_is_refused(lw: Lockwork, replicas: int) -> None:
    with pytest.raises(ConfigError, match="replicas must be a whole number"):
        lw.lock("x", replicas=replicas)
