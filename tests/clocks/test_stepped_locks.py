"""Locks during steps of the server's clock: leases keep their length, and fences never decrease."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis

from lockwork import LockTimeout, Lockwork
from lockwork.protocol import keys
from lockwork.protocol.synchronizers import once
from processes import until
from server_steps import Stepping

BACK = -7200.0
SOON = 20.0
"""Seconds; every lease here is one second, and waiters expire earlier than this."""


@pytest.mark.parametrize(
    "made",
    [
        lambda app: app.lock("x", lease=1),
        lambda app: app.multilock("x", "y", lease=1),
        lambda app: app.semaphore("x", 1, lease=1),
        lambda app: app.rwlock("x", lease=1).write(),
        lambda app: app.queue("q").lock("x", lease=1),
    ],
    ids=["lock", "multilock", "semaphore", "rwlock", "queue lock"],
)
def test_dead_holder_keeps_lock_for_one_lease_after_step_back(
    lw: Lockwork, other: Lockwork, clock: Stepping, made: Callable[[Lockwork], Any]
) -> None:
    made(other).acquire()  # a lease without renewal, like that of a dead holder
    clock.step(BACK)
    with made(lw).acquire(wait=SOON):
        pass


@pytest.mark.parametrize("kind", ["lock", "rwlock"])
def test_live_holder_keeps_its_lock_through_step_back(
    lw: Lockwork, url: str, admin: redis.Redis, clock: Stepping, kind: str
) -> None:
    """No other caller acquires the lock, although its deadline was two hours away."""
    with Lockwork(url, lock_lease=1.0) as holder:
        mine = holder.lock("x") if kind == "lock" else holder.rwlock("x").write()
        grant = mine.acquire()
        clock.step(BACK)
        waiting = lw.lock("x") if kind == "lock" else lw.rwlock("x").write()
        with pytest.raises(LockTimeout):
            waiting.acquire(wait=3)
        assert not grant.lost
        grant.release()


def test_fence_ahead_of_the_clock_is_kept(lw: Lockwork, admin: redis.Redis, clock: Stepping) -> None:
    """The key was deleted after an idle minute, and the next fence was two hours lower."""
    with lw.lock("x").acquire() as grant:
        first = grant.fence
    clock.step(BACK)
    with lw.lock("x").acquire() as grant:
        assert grant.fence > first
    with lw.semaphore("s", 1).acquire() as permit:
        first = permit.fence
    clock.step(BACK)
    with lw.semaphore("s", 1).acquire() as permit:
        assert permit.fence > first
    for key in ("lw:{lock:x}", "lw:{sem:s}"):
        assert admin.pttl(key) > -BACK * 1000, "the clock passes the fence before the key expires"


@pytest.mark.parametrize("kind", ["lock", "semaphore"])
def test_holder_is_notified_of_clock_step_at_next_renewal(
    lw: Lockwork, url: str, clock: Stepping, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    with Lockwork(url, lock_lease=6.0) as holder:
        grant = (holder.lock("x") if kind == "lock" else holder.semaphore("x", 1)).acquire()
        other = holder.lock("y").acquire()
        lease = other._hold.lease
        assert lease is not None
        began = lease.deadline
        until(lambda: lease.deadline > began, "both were renewed")
        clock.step(20)
        until(lambda: grant.lost, "its holder knows")
        until(lambda: other.lost, "and so does the other one")
        assert caplog.text.count("the server's clock was set forward by") == 1


def test_new_caller_after_clock_step_notifies_the_holder(
    lw: Lockwork, other: Lockwork, clock: Stepping, admin: redis.Redis
) -> None:
    """The next renewal is five seconds away, and the message comes at once."""
    grant = other.lock("x").acquire()
    first = admin.hget("lw:{lock:x}", "d")
    until(lambda: admin.hget("lw:{lock:x}", "d") != first, "the lease was renewed")
    until(lambda: admin.pubsub_numsub(other.runtime.channel)[0][1], "the process is subscribed")
    clock.step(20)
    with lw.lock("x").acquire(wait=SOON) as mine:
        until(lambda: grant.lost, "the holder is notified", patience=3.0)
        assert mine.fence > grant.fence


def test_used_tokens_refill_as_before_after_a_step_back(lw: Lockwork, clock: Stepping) -> None:
    limiter = lw.limiter("api", "2/s")
    for _ in range(2):
        limiter.acquire()
    clock.step(BACK)
    limiter.acquire(wait=SOON)


def test_dead_run_of_once_ends_after_one_lease_despite_step_back(lw: Lockwork, url: str, clock: Stepping) -> None:
    request = once.OnceRequest(
        keys.once("lw", "x"), "x", "h/1/a:1:t", "r1", "channel", 1000, 86_400_000, again_if_lost=True
    )
    lw.runtime.run(once.begin(request, 0))  # without a run, like a dead caller
    clock.step(BACK)
    ran = lw.once("x", every="1d", again_if_lost=True, wait=SOON)(lambda: "again")
    assert ran() == "again"


def test_hold_of_a_stock_ends_after_its_time_despite_step_back(lw: Lockwork, clock: Stepping) -> None:
    phones = lw.stock("phone", 1)
    phones.reserve("ann", hold=1)
    clock.step(BACK)
    phones.reserve("bob", hold=1, wait=SOON)
