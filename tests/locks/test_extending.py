"""Extension of leases."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from lockwork import ConfigError, Grant, LockLost, Lockwork, NotHeld
from lockwork.locks.hold import Hold
from processes import until


def take_away(admin: redis.Redis, name: str = "x") -> None:
    admin.delete(f"lw:{{lock:{name}}}")


def test_extending_a_fixed_lease_sets_its_length(lw: Lockwork) -> None:
    lock = lw.lock("x", lease=5)
    with lock as grant:
        fence = grant.fence
        grant.extend("1h")
        assert 3590 < grant.remaining <= 3600
        assert 3590 < lock.remaining() <= 3600
        lock.extend("2h")
        assert 7190 < grant.remaining <= 7200
        assert (grant.fence, lock.inspect().fence) == (fence, fence)


async def test_asyncio_task_extends_its_lease(alw: Lockwork) -> None:
    lock = alw.lock("x", lease=5)
    async with lock as grant:
        await grant.aextend("1h")
        assert 3590 < grant.remaining <= 3600
        await lock.aextend("2h")
        assert 7190 < await lock.aremaining() <= 7200


def test_extending_without_a_time_uses_the_granted_length(lw: Lockwork) -> None:
    with lw.lock("x", lease=60) as grant:
        granted_until = grant.remaining
        threading.Event().wait(1)
        grant.extend()
        assert granted_until - 1 < grant.remaining <= 60


def test_extension_never_shortens_a_lease(lw: Lockwork) -> None:
    with lw.lock("x", lease=60) as grant:
        grant.extend(1)
        assert grant.remaining > 50
        assert lw.lock("x").remaining() > 50


def test_extended_fixed_lease_ends_at_its_new_end(lw: Lockwork) -> None:
    notified = threading.Event()
    grant = lw.lock("x", lease=1, on_lost=lambda _: notified.set()).acquire()
    grant.extend(3)
    assert not notified.wait(1.5)
    assert grant.remaining > 0
    assert notified.wait(30)
    assert grant.lost
    with pytest.raises(LockLost):
        lw.lock("x").release()


def test_renewed_lease_can_be_extended(url: str, admin: redis.Redis) -> None:
    """Redbeat #127: extending added to the time instead of setting it, and the renewal continued from there."""
    with Lockwork(url, lock_lease=1) as lw, lw.lock("x") as grant:
        grant.extend(2)
        assert grant.remaining <= 2
        threading.Event().wait(2.5)  # longer than the extension: the renewal must continue
        assert not grant.lost
        assert lw.lock("x").inspect().fence == grant.fence


def test_extending_over_and_over_does_not_add_up(lw: Lockwork) -> None:
    with lw.lock("x", lease=10) as grant:
        for _ in range(20):
            grant.extend(10)
        assert grant.remaining <= 10
        assert lw.lock("x").remaining() <= 10


def test_lost_lease_cannot_be_extended(lw: Lockwork) -> None:
    grant = lw.lock("x", lease=0.1).acquire()
    until(lambda: grant.lost, "the lease ended")
    for extend in (grant.extend, lw.lock("x").extend):
        with pytest.raises(LockLost):
            extend("1h")
    until(lambda: not lw.lock("x").locked(), "the server agrees")
    with pytest.raises(LockLost):
        lw.lock("x").release()


def test_lease_deleted_on_the_server_cannot_be_extended(lw: Lockwork, admin: redis.Redis) -> None:
    notified = threading.Event()
    grant = lw.lock("x", lease="1h", on_lost=lambda _: notified.set()).acquire()
    take_away(admin)
    with pytest.raises(LockLost, match="before it was extended"):
        grant.extend()
    assert grant.lost  # the failed extension marked it as lost
    assert notified.wait(30)
    assert not admin.exists("lw:{lock:x}")
    with pytest.raises(LockLost):
        grant.release()


async def test_body_ends_with_lock_lost_when_its_lease_cannot_be_extended(alw: Lockwork, admin: redis.Redis) -> None:
    with pytest.raises(LockLost):
        async with alw.lock("x", lease="1h") as grant:
            take_away(admin)
            with pytest.raises(LockLost):
                await grant.aextend()
            assert grant.lost


def test_release_by_another_thread_during_an_extension_is_not_a_loss(
    lw: Lockwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The release comes right after the extension's check of the hold."""
    lost_grants: list[Grant] = []
    grant, check = lw.lock("x", on_lost=lost_grants.append).acquire(), Hold.check

    def checked(held: Hold[Grant]) -> None:
        check(held)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(held.release).result()

    monkeypatch.setattr(Hold, "check", checked)
    with pytest.raises(LockLost, match="before it was extended"):
        grant.extend("1h")
    assert not lw.lock("x").locked()
    assert not lost_grants, "it was released"


def test_extension_by_another_thread_needs_the_grant(lw: Lockwork) -> None:
    lock = lw.lock("x", lease=5)
    with pytest.raises(NotHeld):
        lock.extend()
    with lock as grant, ThreadPoolExecutor(1) as pool:
        with pytest.raises(NotHeld):
            pool.submit(lock.extend, "1h").result()
        assert lock.remaining() <= 5
        pool.submit(grant.extend, "1h").result()  # the grant itself may be passed to another thread
        assert grant.remaining > 3590


def test_extend_refuses_wrong_times(lw: Lockwork) -> None:
    with lw.lock("x", lease=5) as grant:
        for wrong in (0, -1, "soon", float("nan")):
            with pytest.raises(ConfigError):
                grant.extend(wrong)
        assert not grant.lost
        assert grant.remaining <= 5
