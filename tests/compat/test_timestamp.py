"""One key shared with clients that write the lock's end time into it, both ways, with all their flaws."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import redis

from compat.old_clients import ExpiringLock, GetsetLock
from lockwork import LockLost, LockTimeout, Lockwork
from lockwork.compat.timestamp import TimestampLock
from lockwork.protocol.formats.timestamp import Unit
from processes import Started, until

KEY = "goods100"
A1 = "Lock:sale"


def past(seconds: float = 5) -> bytes:
    return str(int(time.time() - seconds)).encode()


@pytest.mark.parametrize("unit", ["s", "ms"])
def test_lockwork_waits_for_a_getset_client(lw: Lockwork, admin: redis.Redis, unit: Unit) -> None:
    their = GetsetLock(admin, milliseconds=unit == "ms")
    ours = TimestampLock(lw, KEY, unit=unit)
    assert their.lock(KEY, 60)
    assert not ours.inspect().has_expiry
    with pytest.raises(LockTimeout):
        ours.acquire(wait=1.3)  # longer than a value without an expiry is waited for, where that counts
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(lambda: ours.acquire(wait=30))
        assert their.unlock(KEY)
        grant = waiting.result(30)
    assert not their.lock(KEY, 60)
    assert not their.unlock(KEY)
    assert ours.locked()
    grant.release()
    assert their.lock(KEY, 60)


@pytest.mark.parametrize("unit", ["s", "ms"])
def test_we_hold_and_a_getset_client_waits(lw: Lockwork, admin: redis.Redis, unit: Unit) -> None:
    their = GetsetLock(admin, milliseconds=unit == "ms")
    with TimestampLock(lw, KEY, unit=unit) as grant:
        assert not their.lock(KEY, 60)
        grant.extend(40)
        assert not their.lock(KEY, 60)
        value = admin.get(KEY)
        assert value is not None
        left = float(value) / (1000 if unit == "ms" else 1) - time.time()
        assert 30 < left < 42
        assert 30_000 < admin.pttl(KEY) < 42_000
    assert their.lock(KEY, 60)


def test_expired_value_is_taken_over_at_once(lw: Lockwork, admin: redis.Redis) -> None:
    admin.set(KEY, past())
    with TimestampLock(lw, KEY, wait=0):
        assert admin.pttl(KEY) > 0
        assert not GetsetLock(admin).lock(KEY, 60)


def test_getset_client_takes_over_only_after_the_end_of_the_lease(lw: Lockwork, admin: redis.Redis) -> None:
    their = GetsetLock(admin)
    grant = TimestampLock(lw, KEY, lease=0.2).acquire()
    admin.persist(KEY)  # so that they must read the time
    until(lambda: their.lock(KEY, 60), "they take it over")
    assert grant.lost
    with pytest.raises(LockLost):
        grant.release()
    assert their.unlock(KEY)


def test_concurrent_takeovers_grant_one_lock(lw: Lockwork, admin: redis.Redis) -> None:
    """The old clients' take-over has two steps, which two clients may both do."""
    start = Barrier(8)

    def take() -> bool:
        start.wait(30)
        return TimestampLock(lw, KEY).try_acquire() is not None

    with ThreadPoolExecutor(8) as pool:
        for _ in range(20):
            admin.set(KEY, past())
            assert sum(done.result(30) for done in [pool.submit(take) for _ in range(8)]) == 1
            lw.release_all()


def test_turns_of_old_and_new_clients_do_not_overlap(lw: Lockwork, url: str) -> None:
    inside, most = 0, 0

    def enter() -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        inside -= 1

    def new() -> None:
        for _ in range(10):
            with TimestampLock(lw, KEY):
                enter()

    def old() -> None:
        with redis.Redis.from_url(url) as client:
            their = GetsetLock(client)
            for _ in range(10):
                until(lambda: their.lock(KEY, 60), "their turn")
                enter()
                assert their.unlock(KEY)

    with ThreadPoolExecutor(6) as pool:
        for done in [pool.submit(turns) for turns in (new, old, new, old, new, old)]:
            done.result(60)
    assert most == 1


def test_holder_is_notified_when_an_old_client_with_a_fast_clock_takes_its_lock(
    lw: Lockwork, admin: redis.Redis
) -> None:
    """The take-over cannot be prevented; Lockwork must neither renew nor delete the other client's key."""
    their = GetsetLock(admin, clock_ahead=60)
    grant = TimestampLock(lw, KEY).acquire()
    assert their.lock(KEY, 60)
    with pytest.raises(LockLost):
        grant.extend()
    with pytest.raises(LockLost):
        grant.release()
    assert their.unlock(KEY)


def test_lease_is_lost_when_a_getset_loser_overwrites_its_value(lw: Lockwork, admin: redis.Redis) -> None:
    """The client read the old value before our take-over; its GETSET leaves its own time, without a holder."""
    admin.set(KEY, past())
    old = admin.get(KEY)
    assert old is not None
    grant = TimestampLock(lw, KEY).acquire(wait=0)
    their = str(int(time.time()) + 1).encode()
    assert not GetsetLock(admin).take(KEY, old, their)
    with pytest.raises(LockLost):
        grant.release()
    assert admin.get(KEY) == their
    with TimestampLock(lw, KEY, wait=30):  # free again when that time is past
        pass


def test_lockwork_waits_for_an_expiring_client(lw: Lockwork, admin: redis.Redis) -> None:
    their = ExpiringLock(admin)
    ours = TimestampLock(lw, A1)
    assert their.lock("sale")
    with pytest.raises(LockTimeout):
        ours.acquire(wait=1.3)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(lambda: ours.acquire(wait=30))
        assert their.unlock("sale")
        waiting.result(30).release()


def test_we_hold_and_an_expiring_client_waits(lw: Lockwork, admin: redis.Redis) -> None:
    their = ExpiringLock(admin)
    ours = TimestampLock(lw, A1)
    grant = ours.acquire()
    assert not their.lock("sale")
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(lambda: their.lock("sale", timeout=30))
        grant.release()
        assert waiting.result(30)
    assert ours.try_acquire() is None


def test_killed_expiring_client_leaves_its_key_for_54_years(lw: Lockwork, admin: redis.Redis) -> None:
    """The client passes an absolute time to EXPIRE, but the value contains the end of the lock."""
    assert ExpiringLock(admin).lock("sale", expire=1)
    assert admin.ttl(A1) > 50 * 365 * 86400
    with TimestampLock(lw, A1, wait=30):
        assert 0 < admin.pttl(A1) < 20_000


def test_client_killed_between_setnx_and_expire_ends_at_its_value(lw: Lockwork, admin: redis.Redis) -> None:
    """The key has no expiry, but the value contains the end of the lock."""
    assert ExpiringLock(admin, dies_between=True).lock("sale", expire=1)
    assert admin.ttl(A1) == -1
    with TimestampLock(lw, A1, wait=30) as grant:
        assert grant.remaining > 0
        assert not ExpiringLock(admin).lock("sale")


def test_takeover_without_an_expiry_keeps_the_lock_until_its_time(lw: Lockwork, admin: redis.Redis) -> None:
    """The take-over is a plain SET, so a live holder's key normally has no expiry."""
    assert ExpiringLock(admin, dies_between=True).lock("sale", expire=1)
    assert ExpiringLock(admin).lock("sale", expire=3600)
    value = admin.get(A1)
    assert admin.ttl(A1) == -1
    ours = TimestampLock(lw, A1)
    assert ours.try_acquire() is None
    with pytest.raises(LockTimeout):
        ours.acquire(wait=1.5)
    assert admin.get(A1) == value


def test_expiring_clients_do_not_exclude_each_other(admin: redis.Redis) -> None:
    """After one take-over, all clients take it over, as docs/compat.md says."""
    assert ExpiringLock(admin, dies_between=True).lock("sale", expire=3600)
    assert all(ExpiringLock(admin).lock("sale", expire=3600) for _ in range(3))


def test_unlock_that_deletes_a_foreign_key_is_a_lost_lock(lw: Lockwork, admin: redis.Redis) -> None:
    """Theirs has no owner check; ours does, so the harm ends here."""
    grant = TimestampLock(lw, A1).acquire()
    assert ExpiringLock(admin).unlock("sale")
    assert ExpiringLock(admin).lock("sale")
    with pytest.raises(LockLost):
        grant.release()
    assert TimestampLock(lw, A1).locked()


async def test_in_asyncio(alw: Lockwork, admin: redis.Redis) -> None:
    their = GetsetLock(admin)
    ours = TimestampLock(alw, KEY, wait=30)
    async with ours:
        assert not their.lock(KEY, 60)
        assert await ours.alocked()
        assert (await ours.ainspect()).has_expiry
    assert their.lock(KEY, 1)  # and dies: free when its time is past
    async with ours:
        assert not their.lock(KEY, 60)
    assert their.lock(KEY, 60)
    assert await ours.aforce_release()


def test_php_holder_with_a_cut_time_is_not_overtaken(lw: Lockwork, php_holder: Started) -> None:
    for _ in range(3):
        php_holder.tell("go")
        assert php_holder.line() == "in"
        with TimestampLock(lw, "cut", wait=30):
            entered = time.time()
            assert entered >= float(php_holder.line())
