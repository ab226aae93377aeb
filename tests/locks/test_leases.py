"""Leases: their length, their renewal, and the notification of a loss."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis

from indexed import keys_but_indexes
from lockwork import ConfigError, Grant, LockLost, Lockwork
from processes import until


def take_away(admin: redis.Redis, name: str = "x") -> None:
    """Delete the lock, as a flush, a failover or an operator would."""
    admin.delete(f"lw:{{lock:{name}}}")


def test_fixed_lease_ends_and_next_waiter_gets_the_lock(lw: Lockwork) -> None:
    first = lw.lock("x", lease="300ms").acquire()

    def next_one() -> tuple[int, bool]:
        with lw.lock("x", wait=30) as grant:
            return grant.fence, first.lost

    with ThreadPoolExecutor(1) as pool:
        fence, was_lost = pool.submit(next_one).result()
    assert fence > first.fence
    assert was_lost
    with pytest.raises(LockLost, match="lease of lock 'x' ended"):
        lw.lock("x").release()


def test_fixed_lease_is_not_renewed(lw: Lockwork) -> None:
    grant = lw.lock("x", lease=0.2).acquire()
    until(lambda: grant.lost, "the lease ended")
    assert grant.remaining == 0
    # the holder counts it as over no later than the server does
    until(lambda: lw.lock("x").inspect().owner is None, "the server agrees")
    with pytest.raises(LockLost, match="lock 'x'"):
        grant.check()
    with pytest.raises(LockLost):
        lw.lock("x").acquire()  # not re-entered as if nothing had been
    with pytest.raises(LockLost):
        lw.lock("x").release()
    with lw.lock("x", wait=0):
        pass


def test_waiter_gets_the_full_fixed_lease(lw: Lockwork) -> None:
    """The hand-over itself lasts only three seconds."""

    def waited() -> float:
        with lw.lock("x", lease="1h") as grant:
            return grant.remaining

    with ThreadPoolExecutor(1) as pool:
        with lw.lock("x"):
            left = pool.submit(waited)
            until(lambda: lw.lock("x").inspect().waiters, "one waits")
        assert 3000 < left.result() <= 3600


def test_lock_outlasts_its_lease_while_python_computes(url: str, admin: redis.Redis) -> None:
    with Lockwork(url, lock_lease=1) as lw, lw.lock("x") as grant:
        end = time.monotonic() + 1.7
        number = 0
        while time.monotonic() < end:
            number += sum(range(1000))
        assert not grant.lost
        grant.check()
        assert lw.lock("x").inspect().fence == grant.fence
        assert lw.lock("x").inspect().owner is not None


async def test_lock_outlasts_its_lease_while_the_event_loop_is_blocked(url: str, admin: redis.Redis) -> None:
    async with Lockwork(url, lock_lease=1) as lw:
        async with lw.lock("x") as grant:
            time.sleep(1.7)  # noqa: ASYNC251 - that is the point
            assert not grant.lost
            state = await lw.lock("x").ainspect()
            assert (state.fence, state.owner is None) == (grant.fence, False)


def test_grant_after_waiting_is_renewed(url: str, admin: redis.Redis) -> None:
    with Lockwork(url, lock_lease=1) as lw, ThreadPoolExecutor(1) as pool:

        def waited() -> bool:
            with lw.lock("x") as grant:
                return threading.Event().wait(1.7) or grant.lost

        with lw.lock("x"):
            lost = pool.submit(waited)
            until(lambda: lw.lock("x").inspect().waiters, "one waits")
        assert not lost.result()


def test_250_locks_are_renewed_together(url: str, admin: redis.Redis) -> None:
    with Lockwork(url, lock_lease=2) as lw:
        grants = [lw.lock(f"x{number}").acquire() for number in range(250)]
        threading.Event().wait(2.7)
        assert not any(grant.lost for grant in grants)
        for number in range(250):
            lw.lock(f"x{number}").release()


def test_lost_lease_is_reported_once_and_other_locks_stay(url: str, admin: redis.Redis) -> None:
    lost_grants: list[Grant] = []
    with Lockwork(url, lock_lease=1) as lw:
        with lw.lock("other") as other:
            with (
                pytest.raises(LockLost, match="another process may have held it"),
                lw.lock("x", on_lost=lost_grants.append) as grant,
            ):
                take_away(admin)
                until(lambda: lost_grants, "the holder was lost_grants")
                assert grant.lost
            assert not other.lost
        assert lost_grants == [grant]


def test_failing_callback_does_not_end_other_leases(url: str, admin: redis.Redis) -> None:
    called = threading.Event()

    def fail(_: Grant) -> None:
        called.set()
        raise ValueError("not our fault")

    with Lockwork(url, lock_lease=1) as lw, lw.lock("other") as other:
        with pytest.raises(LockLost), lw.lock("x", on_lost=fail):
            take_away(admin)
            assert called.wait(30)
        threading.Event().wait(1.4)
        assert not other.lost


def test_lost_lock_does_not_mask_the_bodys_own_error(lw: Lockwork, admin: redis.Redis) -> None:
    with pytest.raises(KeyError, match="mine"), lw.lock("x"):
        take_away(admin)
        raise KeyError("mine")


async def test_lost_lock_cancels_the_body_and_raises_lock_lost(url: str, admin: redis.Redis) -> None:
    async with Lockwork(url, lock_lease=1) as lw:
        cancelled = False
        with pytest.raises(LockLost, match="lock 'x' was lost, and the body was cancelled"):
            async with lw.lock("x") as grant:
                take_away(admin)
                try:
                    await asyncio.sleep(30)
                except asyncio.CancelledError:
                    cancelled = True
                    raise
        assert cancelled
        assert grant.lost
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        await asyncio.sleep(0)


async def test_body_that_swallows_the_cancellation_still_gets_lock_lost(url: str, admin: redis.Redis) -> None:
    async with Lockwork(url, lock_lease=1) as lw:
        with pytest.raises(LockLost):
            async with lw.lock("x"):
                take_away(admin)
                with pytest.raises(asyncio.CancelledError):
                    await asyncio.sleep(30)


async def test_lost_lock_does_not_mask_an_error_of_the_cancelled_body(url: str, admin: redis.Redis) -> None:
    async with Lockwork(url, lock_lease=1) as lw:
        with pytest.raises(KeyError, match="mine"):
            async with lw.lock("x"):
                take_away(admin)
                try:
                    await asyncio.sleep(30)
                except asyncio.CancelledError:
                    raise KeyError("mine") from None


async def test_foreign_cancellation_is_propagated(url: str, admin: redis.Redis) -> None:
    async with Lockwork(url, lock_lease=1) as lw:

        async def body() -> None:
            async with lw.lock("x") as grant:
                take_away(admin)
                try:
                    await asyncio.sleep(30)
                finally:
                    assert grant.lost
                    outer.cancel()

        outer = asyncio.create_task(body())
        with pytest.raises(asyncio.CancelledError):
            await outer


async def test_block_without_await_raises_lock_lost_on_exit(alw: Lockwork, admin: redis.Redis) -> None:
    with pytest.raises(LockLost, match="ended before it was released"):
        async with alw.lock("x"):
            take_away(admin)
    async with alw.lock("x", wait=0):
        pass


def test_fence_rises_over_release_expiry_and_loss(lw: Lockwork, admin: redis.Redis) -> None:
    fences = []
    for round in range(9):
        grant = lw.lock("x", lease=0.1 if round % 3 == 1 else None).acquire()
        fences.append(grant.fence)
        if round % 3 == 1:
            until(lambda grant=grant: grant.lost, "the lease ended")  # type: ignore[misc]
        elif round % 3 == 2:
            take_away(admin)
        try:
            lw.lock("x").release()
        except LockLost:
            assert round % 3
        else:
            assert not round % 3
    assert fences == sorted(set(fences))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"lease": 0}, "lease must be more than 0"),
        ({"lease": -1}, "lease must be between 0"),
        ({"lease": "soon"}, "lease must be seconds"),
        ({"wait": -1}, "wait must be between 0"),
        ({"wait": "never"}, "wait must be seconds"),
    ],
)
def test_lock_refuses_wrong_options(lw: Lockwork, admin: redis.Redis, options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        lw.lock("x", **options)
    with pytest.raises(ConfigError, match="wait must be"):
        lw.lock("x").acquire(wait=-0.5)
    assert not keys_but_indexes(admin)


def test_engine_continues_without_a_thread_for_on_lost(
    lw: Lockwork, admin: redis.Redis, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The engine ended by it, and none of the other locks was renewed any more."""
    start = threading.Thread.start

    def scarce(thread: threading.Thread) -> None:
        if thread.name == "lockwork-on-lost":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", scarce)
    lost_grants: list[Grant] = []
    with lw.lock("other"):
        grant = lw.lock("x", on_lost=lost_grants.append).acquire()
        take_away(admin)
        until(lambda: grant.lost, "it is notified")
        before = admin.hget("lw:{lock:other}", "d")
        until(lambda: admin.hget("lw:{lock:other}", "d") != before, "the other lock is renewed", 20)
    assert not lost_grants
    assert "on_lost of lock 'x' could not be called" in caplog.text
    with pytest.raises(LockLost):
        grant.release()


def test_key_outlives_a_long_lease_after_a_short_one(lw: Lockwork, admin: redis.Redis) -> None:
    for lease in (1, 30):
        with lw.lock("x", lease=lease):
            assert admin.pttl("lw:{lock:x}") > (max(lease, 15) + 45) * 1000
    with lw.lock("x", lease=30):
        assert admin.pttl("lw:{lock:x}") > 75_000
