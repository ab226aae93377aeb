"""Several locks as one: all or none, on the same keys as the single locks, and lost if one lock is lost."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from locks.multilock.parts import Several, free
from lockwork import ConfigError, LockLost, LockTimeout, Lockwork, NotHeld, ServerRefused, owners
from lockwork.locks.multilock import MultiHold
from lockwork.protocol import keys
from lockwork.protocol.effects import Protocol, script_call
from lockwork.protocol.locks.grants import CLAIM_MS
from processes import until


def test_multilock_holds_the_single_locks(lw: Lockwork, other: Lockwork, several: Several) -> None:
    with several(lw, "b", "a") as grant:
        assert set(grant.fences) == {"a", "b"}
        assert grant.fence == max(grant.fences.values())
        for name in ("a", "b"):
            assert other.lock(name).try_acquire() is None
            assert other.lock(name).inspect().fence == grant.fences[name]
        assert not grant.lost
        grant.check()
        assert 0 < grant.remaining <= 30
        assert "'b, a'" in repr(grant)
    assert grant.remaining == 0
    assert free(other, "a", "b")


def test_multilock_is_granted_whole_or_not_at_all(lw: Lockwork, other: Lockwork, several: Several) -> None:
    with other.lock("b"):
        assert several(lw, "a", "b", "c").try_acquire() is None
        assert free(other, "a", "c")
        with pytest.raises(LockTimeout, match="multilock 'a, b'"):
            several(lw, "a", "b", wait="100ms").acquire()
        assert other.lock("b").inspect().waiters == 0
    assert free(other, "a", "b", "c")


def test_repeated_refused_call_holds_no_lock(lw: Lockwork, other: Lockwork) -> None:
    """The reply with the grants is lost, and another owner gets the first lock before the call is repeated."""
    asked = lw.multilock("a", "b", "c")._new_request(owners.current())
    args = (asked.owner, asked.request, asked.lease_ms, CLAIM_MS, 0, asked.channel)
    call = script_call("locks/multi_acquire", [keys.lock("lw", name) for name in ("a", "b", "c")], args)

    def sent() -> Protocol[int]:
        reply = yield call
        granted: int = reply[0]
        return granted

    assert lw.runtime.run(sent()) == 1
    assert other.lock("a").force_release()
    with other.lock("a"):
        assert lw.runtime.run(sent()) == 0
        assert free(other, "b", "c")


def test_holder_of_one_part_reenters_it(lw: Lockwork, other: Lockwork, several: Several) -> None:
    with lw.lock("a") as outer:
        with several(lw, "a", "b") as grant:
            assert grant.fences["a"] == outer.fence
            assert outer.depth == 2
            with lw.lock("b") as inner:
                assert inner.fence == grant.fences["b"]
            assert other.lock("b").try_acquire() is None
        assert not outer.lost
        assert free(other, "b")
        assert other.lock("a").try_acquire() is None
        with other.lock("b"):
            assert several(lw, "a", "b").try_acquire() is None
        assert outer.depth == 1
    assert free(other, "a")


def test_multilock_is_reentrant_as_a_whole(lw: Lockwork, other: Lockwork) -> None:
    both = lw.multilock("a", "b")
    with both as outer:
        with lw.multilock("b", "a") as inner:
            assert inner is outer
        assert both.held()
        with lw.multilock("b", "c") as wider:
            assert wider.fences["b"] == outer.fences["b"]
        assert not outer.lost
        assert free(other, "c")
    assert not both.held()
    with pytest.raises(NotHeld):
        both.release()


def test_names(lw: Lockwork) -> None:
    """With a duplicate name, the second part would wait for the first forever."""
    for names in ((), ("a", "a"), ("a b", "c", "a b"), (5,), tuple(f"n{number}" for number in range(101))):
        with pytest.raises(ConfigError):
            lw.multilock(*names)
    with lw.multilock("only") as grant:
        assert list(grant.fences) == ["only"]


def test_extend(lw: Lockwork, other: Lockwork, several: Several) -> None:
    with several(lw, "a", "b", lease="1s") as grant:
        grant.extend("1h")
        assert grant.remaining > 3000
        assert min(other.lock(name).remaining() for name in ("a", "b")) > 3000
    assert free(other, "a", "b")


@pytest.mark.parametrize("whole", [True, False])
def test_release_by_another_thread_during_an_extension_is_noticed(
    lw: Lockwork, other: Lockwork, several: Several, monkeypatch: pytest.MonkeyPatch, *, whole: bool
) -> None:
    """The release comes right after the extension's check of the hold. The extension must not report success."""
    grant, check = several(lw, "a", "b").acquire(), MultiHold.check
    released = grant if whole else grant.parts[0]

    def checked(held: MultiHold) -> None:
        check(held)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(released.release).result()

    monkeypatch.setattr(MultiHold, "check", checked)
    with pytest.raises(LockLost, match="before it was extended"):
        grant.extend("1h")
    if not whole:
        with pytest.raises(LockLost):
            grant.release()
    assert free(other, "a", "b")


@pytest.mark.parametrize("part", ["a", "b"])
def test_multilock_is_lost_with_any_part(lw: Lockwork, other: Lockwork, part: str) -> None:
    told: list[object] = []
    seen = threading.Event()

    def lost(grant: object) -> None:
        told.append(grant)
        seen.set()

    lock = lw.multilock("a", "b", on_lost=lost)
    grant = lock.acquire()
    assert other.lock(part).force_release()
    assert seen.wait(30)
    until(lambda: grant.lost, "it knows")
    with pytest.raises(LockLost):
        grant.check()
    other.lock("b" if part == "a" else "a").force_release()
    with pytest.raises(LockLost, match="multilock 'a, b'"):
        lock.release()
    assert told == [grant]
    assert free(other, "a", "b")


async def test_body_is_cancelled_when_a_part_is_lost(alw: Lockwork, url: str, several: Several) -> None:
    async with Lockwork(url) as other:
        with pytest.raises(LockLost, match="was cancelled"):
            async with several(alw, "a", "b"):
                await other.lock("b").aforce_release()
                await asyncio.sleep(30)
        assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]
        async with asyncio.timeout(20):  # the other part is released before its lease ends
            async with other.multilock("a", "b"):
                pass


async def test_asyncio(alw: Lockwork, url: str, several: Several) -> None:
    async with Lockwork(url) as other:
        async with several(alw, "a", "b") as grant:
            assert await other.multilock("b", "c").atry_acquire() is None
            await grant.aextend("10s")
            waiting = asyncio.create_task(other.multilock("b", "c").aacquire())
            while (await alw.lock("b").ainspect()).waiters == 0:
                await asyncio.sleep(0)
            assert not await alw.lock("x").alocked()
        theirs = await waiting
        await theirs.arelease()

        @several(alw, "a", "b")
        async def held() -> bool:
            return await other.lock("a").alocked()

        assert await held()
        assert not await other.lock("a").alocked()


def test_sticky_lock_is_released_for_a_multilock(lw: Lockwork, other: Lockwork) -> None:
    with other.lock("a", sticky=True):
        pass
    with lw.multilock("a", "b", wait=30) as grant:
        assert not grant.lost


def test_key_of_another_type_is_refused(lw: Lockwork, other: Lockwork, admin: redis.Redis) -> None:
    """Redis does not roll scripts back: the script must not acquire the first lock if the second key is invalid."""
    admin.set("lw:{lock:b}", "x", ex=60)
    with pytest.raises(ServerRefused, match="locks/multi_acquire"):
        lw.multilock("a", "b").acquire()
    assert free(other, "a")


def test_release_all_counts_its_parts(lw: Lockwork, other: Lockwork) -> None:
    grant = lw.multilock("a", "b").acquire()
    assert lw.release_all() >= 1
    assert grant.lost
    assert free(other, "a", "b")
