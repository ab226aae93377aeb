"""A lock that is held for a minimum, so that a scheduled job that ends early does not run on the next machine."""

from __future__ import annotations

import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from indexed import keys_but_indexes
from lockwork import ConfigError, LockLost, Lockwork
from processes import script, until

HOLDER = """
import sys
from lockwork import Lockwork
with Lockwork(lock_lease=1) as lw:
    grant = lw.lock("x", at_least=sys.argv[1]).acquire()
    print(grant.fence, flush=True)
    sys.stdin.readline()
"""


def test_released_early_it_stays_taken(lw: Lockwork, url: str) -> None:
    with Lockwork(url) as other:
        lock = lw.lock("x", at_least=1.5)
        began = time.monotonic()
        with lock as grant:
            pass
        assert grant.lost
        assert not lock.held()
        assert lock.try_acquire() is None  # also its last holder must wait
        assert other.lock("x").try_acquire() is None
        assert other.lock("x").locked()
        assert other.lock("x").owner() is None
        assert 0 < other.lock("x").remaining() <= 1.5
        with other.lock("x", wait=30) as next_one:
            assert 1.45 < time.monotonic() - began < 1.5 + 1.5
            assert next_one.fence > grant.fence


async def test_released_early_by_a_task(alw: Lockwork) -> None:
    began = time.monotonic()
    async with alw.lock("x", at_least=1) as grant:
        pass
    assert await alw.lock("x").atry_acquire() is None
    async with alw.lock("x", wait=30) as next_one:
        assert time.monotonic() - began > 0.95
        assert next_one.fence > grant.fence


def test_released_late_it_is_free_at_once(lw: Lockwork) -> None:
    lock = lw.lock("x", at_least=0.1)
    with lock:
        threading.Event().wait(0.15)
    assert not lock.locked()
    with lw.lock("x", wait=0):
        pass


def test_minimum_counts_from_the_grant_not_from_the_release(lw: Lockwork) -> None:
    lock = lw.lock("x", at_least=1)
    with lock:
        threading.Event().wait(0.5)
    assert lock.remaining() <= 0.55


def test_entered_again_the_minimum_is_the_first_ones(lw: Lockwork) -> None:
    lock = lw.lock("x", at_least=0.5)
    with lock:
        with lock:
            pass
        assert lock.held()
        threading.Event().wait(0.55)
    assert not lock.locked()


def test_waiters_are_granted_when_the_minimum_ends(lw: Lockwork) -> None:
    """The waiters are granted in order, each after the minimum of the previous one."""
    moments: list[tuple[int, float]] = []

    def turn(number: int) -> None:
        with lw.lock("x", at_least=0.3, wait=30):
            moments.append((number, time.monotonic()))

    with ThreadPoolExecutor(3) as pool:
        with lw.lock("x", at_least=0.8):
            began = time.monotonic()
            for number in range(3):
                pool.submit(turn, number)
                until(lambda number=number: lw.lock("x").inspect().waiters == number + 1, "it waits")  # type: ignore[misc]
    assert [number for number, _ in moments] == [0, 1, 2]
    last = began + 0.8
    for _, moment in moments:
        assert -0.1 < moment - last < 1.5
        last = moment + 0.3


def test_second_waiter_wakes_at_lease_end_when_first_has_died(lw: Lockwork, url: str) -> None:
    """The waiter planned to check at the end of the holder's lease; the release made that end earlier (L4)."""
    waiter = "from lockwork import Lockwork\nLockwork().lock('x').acquire()\n"
    with ThreadPoolExecutor(1) as pool:
        with lw.lock("x", at_least=1.5), script(waiter, url=url) as first:
            until(lambda: lw.lock("x").inspect().waiters == 1, "the first waits")
            second = pool.submit(lambda: (lw.lock("x", wait=30).acquire(), time.monotonic())[1])
            until(lambda: lw.lock("x").inspect().waiters == 2, "the second waits")
            first.send(signal.SIGKILL)
            first.wait()
            end = time.monotonic() + 1.5
        # the server may grant the lock to the dead waiter, which has four seconds to claim it
        assert second.result() - end < 4 + 1


def test_crashed_holder_keeps_the_lock_for_the_minimum(lw: Lockwork, url: str) -> None:
    with script(HOLDER, "4s", url=url) as holder:
        holder.line()
        granted = time.monotonic()
        holder.send(signal.SIGKILL)
        holder.wait()
        with lw.lock("x", wait=30):
            assert 3.5 < time.monotonic() - granted < 4 + 1.5


def test_waiter_that_crashed_after_its_grant_keeps_the_minimum(lw: Lockwork, url: str) -> None:
    """A hand-over lasts only for the time to claim it: that is less than the minimum."""
    lw.lock("x").acquire()
    with script(HOLDER, "8s", url=url) as holder:
        until(lambda: lw.lock("x").inspect().waiters == 1, "it waits")
        threading.Event().wait(0.5)  # it receives the wake-up
        lw.lock("x").release()
        holder.line()
        granted = time.monotonic()
        holder.send(signal.SIGKILL)
        holder.wait()
        with lw.lock("x", wait=30):
            assert time.monotonic() - granted > 7.5


def test_minimum_may_exceed_the_usual_lease(url: str, admin: redis.Redis) -> None:
    with Lockwork(url, lock_lease=0.5) as lw:
        with lw.lock("x", at_least=3) as grant:
            threading.Event().wait(0.8)
            assert not grant.lost
        assert lw.lock("x").locked()
        until(lambda: not lw.lock("x").locked(), "the minimum is over")


def test_with_a_fixed_lease(lw: Lockwork) -> None:
    with lw.lock("x", lease=2, at_least=0.3):
        pass
    assert 0 < lw.lock("x").remaining() <= 0.3
    with pytest.raises(ConfigError, match="at_least must not be longer than the lease"):
        lw.lock("x", lease=1, at_least=2)
    assert lw.lock("x", lease=16.1, at_least=16.1), "a lease in binary is not what is written"


def test_lost_lease_ignores_the_minimum(lw: Lockwork, admin: redis.Redis) -> None:
    with pytest.raises(LockLost), lw.lock("x", at_least="1h"):
        admin.delete("lw:{lock:x}")
    assert not lw.lock("x").locked()


def test_late_release_does_not_keep_another_holders_lock(lw: Lockwork, url: str) -> None:
    with Lockwork(url) as other:
        grant = lw.lock("x", at_least="1h").acquire()
        assert other.lock("x").force_release()
        with other.lock("x", wait=0) as mine:
            with pytest.raises(LockLost):
                grant.release()
            assert not mine.lost
            assert other.lock("x").remaining() <= 15
        assert not other.lock("x").locked()


def test_repeated_release_does_not_extend_the_minimum(lw: Lockwork, admin: redis.Redis) -> None:
    with lw.lock("x", at_least=30):
        pass
    remaining = lw.lock("x").remaining()
    assert remaining <= 30
    assert 30 < admin.ttl("lw:{lock:x}") <= 30 + 60 + 15


def test_release_all_and_grant_release_keep_the_minimum(lw: Lockwork) -> None:
    lw.lock("x", at_least=30).acquire()
    lw.lock("x").release_all()
    assert lw.lock("x").locked()
    grant = lw.lock("y", at_least=30).acquire()
    grant.release()
    assert lw.lock("y").locked()


@pytest.mark.parametrize("wrong", [-1, 0, "later", float("inf")])
def test_wrong_minimums_are_refused(lw: Lockwork, admin: redis.Redis, wrong: object) -> None:
    with pytest.raises(ConfigError):
        lw.lock("x", at_least=wrong)  # type: ignore[arg-type]
    assert not keys_but_indexes(admin)
