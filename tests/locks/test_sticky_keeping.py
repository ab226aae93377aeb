"""The cache of sticky locks: renewal, its limit, and the closing of the app."""

from __future__ import annotations

import threading

import pytest
import redis

from locks.keeping import SOON
from lockwork import LockLost, Lockwork
from lockwork.runtime import sticky_cache
from processes import until


def test_at_most_a_thousand_locks_are_cached(url: str, admin: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sticky_cache, "MOST", 20)
    with Lockwork(url) as lw:
        for number in range(50):
            with lw.lock(f"x{number}", sticky=True):
                pass
        assert len(lw.runtime.sticky_cache.idle) == 20
        assert len(lw.runtime.sticky_cache.all) == 20
        until(lambda: not any(lw.lock(f"x{number}").locked() for number in range(30)), "the oldest are free", SOON)
        assert all(lw.lock(f"x{number}").locked() for number in range(30, 50))
        with lw.lock("x49", sticky=True):
            pass


def test_cache_holds_at_most_a_thousand_locks() -> None:
    assert sticky_cache.MOST == 1000


def test_closing_gives_back(url: str, other: Lockwork) -> None:
    lw = Lockwork(url, lock_lease=60)
    with lw, lw.lock("x", sticky=True):
        pass
    assert not other.lock("x").locked()
    with lw.lock("x", sticky=True):  # opened again
        assert other.lock("x").locked()
    lw.close()
    assert not other.lock("x").locked()


async def test_closing_by_a_task_gives_back(url: str, other: Lockwork) -> None:
    async with Lockwork(url, lock_lease=60) as lw, lw.lock("x", sticky=True):
        pass
    assert not await other.lock("x").alocked()
    await other.aclose()


def test_cached_lock_is_renewed(url: str, admin: redis.Redis) -> None:
    with Lockwork(url, lock_lease=1.5) as lw:
        lock = lw.lock("x", sticky=True)
        with lock as grant:
            pass
        threading.Event().wait(2)
        with lock as again:
            assert again.fence == grant.fence


def test_closing_while_it_is_in_use(url: str, other: Lockwork) -> None:
    """The lock ends with its lease, because a closed app renews nothing."""
    lw = Lockwork(url, lock_lease=0.6)
    lock = lw.lock("x", sticky=True)
    grant = lock.acquire()
    lw.close()
    until(lambda: grant.lost, "the lease ended", SOON)
    with other.lock("x", wait=SOON) as theirs:
        with pytest.raises(LockLost):
            lock.release()
        assert not theirs.lost
    with lock as again:
        assert not again.lost
    lw.close()
