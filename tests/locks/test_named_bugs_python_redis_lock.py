"""Bugs that python-redis-lock and redis-lock-py have had: each test fails if ours has it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis

from lockwork import ConfigError, Lockwork
from lockwork.protocol.effects import Park, Protocol
from lockwork.protocol.locks import grants
from lockwork.protocol.locks.grants import Granted
from processes import until


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode()


def waiting(lw: Lockwork, count: int = 1) -> None:
    until(lambda: lw.lock("x").inspect().waiters == count, f"{count} wait")


def test_python_redis_lock_14(lw: Lockwork, other: Lockwork, admin: redis.Redis) -> None:
    """python-redis-lock #14: a signal left over from an earlier release let a waiter through the blocking call."""
    entered = threading.Event()

    def wait() -> None:
        with other.lock("x"):
            entered.set()

    with ThreadPoolExecutor(1) as pool, lw.lock("x") as grant:
        done = pool.submit(wait)
        waiting(lw)
        (request,) = [field[1:] for field in map(_text, admin.hkeys("lw:{lock:x}")) if field.startswith("i")]
        for _ in range(20):
            admin.publish(other.runtime.channel, f"{request} ")
        waiting(lw)
        assert not entered.is_set()
        assert lw.lock("x").inspect().fence == grant.fence
        grant.release()
        done.result(30)


def test_python_redis_lock_15_and_17(lw: Lockwork, other: Lockwork, admin: redis.Redis) -> None:
    """python-redis-lock #15: an unread list of signals grew without end; #17: it was never deleted."""

    def turns(app: Lockwork) -> None:
        for _ in range(100):
            app.lock("x").try_acquire()
            with app.lock("x", wait=30):
                pass
            if app.lock("x").held():
                app.lock("x").release_all()

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(turns, lw), pool.submit(turns, other)]:
            done.result(60)
    assert admin.keys("lw:{lock:*") == [b"lw:{lock:x}"]
    assert admin.hlen("lw:{lock:x}") <= 10
    assert 0 < admin.pttl("lw:{lock:x}") <= 90_000


@pytest.mark.parametrize("lease", [0, 0.0, "0s", -1])
def test_python_redis_lock_18(lw: Lockwork, lease: Any) -> None:
    """python-redis-lock PR #18: it blocked for ever when expire was 0."""
    with pytest.raises(ConfigError, match="lease"):
        lw.lock("x", lease=lease)


def test_python_redis_lock_half_a_second(lw: Lockwork, other: Lockwork) -> None:
    """python-redis-lock: times were whole seconds, so that half a second was none, and the lock never ended."""
    grant = lw.lock("x", lease=0.5).acquire()
    assert 0 < lw.lock("x").inspect().expires_in <= 0.5
    with other.lock("x", wait=30):
        assert grant.lost


def test_python_redis_lock_71_and_redis_lock_py_3(lw: Lockwork, other: Lockwork) -> None:
    """The release fell between the failed try and the wait, and the waiter slept its whole time.

    python-redis-lock #71: the signal was deleted; miintto/redis-lock-py #3: it was subscribed to too late.
    """
    grant = lw.lock("x").acquire()

    def slowly(protocol: Protocol[Granted]) -> Protocol[Granted]:
        value, parked = None, False
        try:
            while True:
                effect = protocol.send(value)
                if type(effect) is Park and not parked:
                    parked = True
                    pool.submit(grant.release).result(30)
                value = yield effect
        except StopIteration as done:
            assert parked
            return done.value  # type: ignore[no-any-return]

    with ThreadPoolExecutor(1) as pool:
        lock = other.lock("x")
        owner = lock._owner()
        asked = lock._new_request(owner)
        kept = lock._register_hold(owner, asked, other.runtime.run(slowly(grants.acquire(asked, None))))
        assert not kept.lost
        kept.release()


def test_lost_wake_up_does_not_delay_the_waiter(lw: Lockwork, other: Lockwork, admin: redis.Redis) -> None:
    """python-redis-lock #71 again, by the network: the waiter's subscription breaks in the moment of the release."""
    with ThreadPoolExecutor(1) as pool:
        for _ in range(3):
            grant = lw.lock("x").acquire()
            next_one = pool.submit(lambda: other.lock("x").acquire())
            waiting(lw)
            admin.client_kill_filter(_type="pubsub")
            grant.release()
            next_one.result(30).release()


def test_python_redis_lock_85_and_aioredlock_52(lw: Lockwork, url: str) -> None:
    """python-redis-lock #85: NotAcquired although it was renewed; aioredlock #52, pottery: renewed a few times only."""
    with Lockwork(url, lock_lease=0.9) as app:
        deadlines: set[float] = set()
        with app.lock("x") as grant:
            lease = grant._hold.lease
            assert lease is not None

            def renewals() -> int:
                deadlines.add(lease.deadline)
                return len(deadlines)

            until(lambda: renewals() > 6, "it is renewed again and again")
            for _ in range(10):
                grant.extend()
            assert lw.lock("x").try_acquire() is None
        assert not lw.lock("x").locked()


def test_python_redis_lock_91(url: str, admin: redis.Redis) -> None:
    """python-redis-lock #91: code that does not let others run starved the renewal, and the lock was lost unseen."""
    with Lockwork(url, lock_lease=2) as app, app.lock("x") as grant:
        lease = grant._hold.lease
        assert lease is not None
        begun = lease.deadline
        while lease.deadline < begun + 2:  # pure Python without a pause, for a lease
            assert not lease.lost
        grant.check()
