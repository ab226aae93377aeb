"""Several locks as one: all or none, on the same keys as the single locks, and never in a circle."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from lockwork import ConfigError, LockLost, LockTimeout, Lockwork, NotHeld, ServerRefused, owners
from lockwork.locks.multilock import MultiLock
from lockwork.protocol import keys
from lockwork.protocol.effects import Call, Protocol
from lockwork.protocol.grants import CLAIM_MS
from lockwork.protocol.scripts import script
from processes import until


@pytest.fixture
def rival(url: str, admin: redis.Redis) -> Iterator[Lockwork]:
    """Another app, as another process would be."""
    with Lockwork(url) as app:
        yield app


@pytest.fixture(params=["one script", "by slot"])
def several(request: pytest.FixtureRequest) -> Callable[..., MultiLock]:
    """Makes multilocks as on a single server, and as in a Cluster where each key has another slot."""

    def make(app: Lockwork, *names: str, **options: object) -> MultiLock:
        made = app.multilock(*names, **options)  # type: ignore[arg-type]
        made._by_slot = request.param == "by slot"
        return made

    return make


Several = Callable[..., MultiLock]


def free(app: Lockwork, *names: str) -> bool:
    states = [app.lock(name).state() for name in names]
    return all(state.owner is None and state.waiters == 0 for state in states)


def test_it_holds_the_same_locks(lw: Lockwork, rival: Lockwork, several: Several) -> None:
    with several(lw, "b", "a") as grant:
        assert set(grant.fences) == {"a", "b"}
        assert grant.fence == max(grant.fences.values())
        for name in ("a", "b"):
            assert rival.lock(name).try_acquire() is None
            assert rival.lock(name).state().fence == grant.fences[name]
        assert not grant.lost
        grant.check()
        assert 0 < grant.remaining <= 30
        assert "'b, a'" in repr(grant)
    assert grant.remaining == 0
    assert free(rival, "a", "b")


def test_all_or_nothing(lw: Lockwork, rival: Lockwork, several: Several) -> None:
    with rival.lock("b"):
        assert several(lw, "a", "b", "c").try_acquire() is None
        assert free(rival, "a", "c")
        with pytest.raises(LockTimeout, match="multilock 'a, b'"):
            several(lw, "a", "b", wait="100ms").acquire()
        assert rival.lock("b").state().waiters == 0
    assert free(rival, "a", "b", "c")


def test_refused_when_sent_again_it_has_nothing(lw: Lockwork, rival: Lockwork) -> None:
    """The reply that all are granted is lost, and before the call is sent again somebody else has got the first."""
    asked = lw.multilock("a", "b", "c")._request(owners.current())
    args = (asked.owner, asked.request, asked.lease_ms, CLAIM_MS, 0, asked.channel)
    call = Call(script("multi_acquire"), [keys.lock("lw", name) for name in ("a", "b", "c")], args)

    def sent() -> Protocol[int]:
        reply = yield call
        granted: int = reply[0]
        return granted

    assert lw.runtime.run(sent()) == 1
    assert rival.lock("a").force_release()
    with rival.lock("a"):
        assert lw.runtime.run(sent()) == 0
        assert free(rival, "b", "c")


def test_nobody_is_passed_by(lw: Lockwork, rival: Lockwork) -> None:
    """Not waiting, it takes nothing that others wait for."""
    with rival.lock("a"), ThreadPoolExecutor(1) as pool:
        other = pool.submit(lambda: rival.lock("a", wait=30).acquire().release())
        until(lambda: rival.lock("a").state().waiters == 1, "somebody waits")
        assert lw.multilock("a", "b").try_acquire() is None
        assert free(rival, "b")
        rival.lock("a").release()
        other.result(30)
        rival.lock("a").acquire()


def test_while_it_waits_it_has_nothing_behind_that_in_the_order(lw: Lockwork, rival: Lockwork) -> None:
    rival.lock("a").acquire()
    rival.lock("c").acquire()
    with ThreadPoolExecutor(1) as pool:
        grant = pool.submit(lw.multilock("c", "b", "a", wait=30).acquire)
        until(lambda: rival.lock("a").state().waiters == 1, "it waits for the first")
        assert rival.lock("c").state().waiters == 0
        assert free(rival, "b")
        rival.lock("a").release()
        until(lambda: rival.lock("c").state().waiters == 1, "it waits for the last")
        assert rival.lock("b").try_acquire() is None, "what was free on the way is taken"
        assert not grant.done()
        rival.lock("c").release()
        held = grant.result(30)
        assert not held.lost
        held.release()
    assert free(rival, "a", "b", "c")


def test_it_waits_in_no_circle_with_nested_locks(lw: Lockwork, rival: Lockwork) -> None:
    """Whoever nests locks in the order of their names is as safe from a multilock as from others who do."""
    rival.lock("a").acquire()
    with ThreadPoolExecutor(1) as pool:
        grant = pool.submit(lw.multilock("a", "b", wait=30).acquire)
        until(lambda: rival.lock("a").state().waiters == 1, "it waits")
        with rival.lock("b", wait=10):
            assert not grant.done()
        rival.lock("a").release()
        grant.result(30).release()


def test_what_it_has_lives_while_it_waits_for_the_rest(lw: Lockwork, rival: Lockwork, several: Several) -> None:
    """Its own lease is far shorter than the wait."""
    rival.lock("b").acquire()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(several(lw, "a", "b", wait=30, lease="300ms").acquire)
        until(lambda: rival.lock("a").state().owner is not None, "it has the first")
        fence = rival.lock("a").state().fence
        assert rival.lock("a", wait=1.2).try_acquire() is None
        with pytest.raises(LockTimeout):
            rival.lock("a", wait=1.2).acquire()
        assert rival.lock("a").state().fence == fence
        rival.lock("b").release()
        assert waiting.result(30).fences["a"] == fence


def test_a_holder_of_one_part_enters_it_again(lw: Lockwork, rival: Lockwork, several: Several) -> None:
    with lw.lock("a") as outer:
        with several(lw, "a", "b") as grant:
            assert grant.fences["a"] == outer.fence
            assert outer.depth == 2
            with lw.lock("b") as inner:
                assert inner.fence == grant.fences["b"]
            assert rival.lock("b").try_acquire() is None
        assert not outer.lost
        assert free(rival, "b")
        assert rival.lock("a").try_acquire() is None
        with rival.lock("b"):
            assert several(lw, "a", "b").try_acquire() is None
        assert outer.depth == 1
    assert free(rival, "a")


def test_it_is_re_entrant_as_a_whole(lw: Lockwork, rival: Lockwork) -> None:
    both = lw.multilock("a", "b")
    with both as outer:
        with lw.multilock("b", "a") as inner:
            assert inner is outer
        assert both.held()
        with lw.multilock("b", "c") as wider:
            assert wider.fences["b"] == outer.fences["b"]
        assert not outer.lost
        assert free(rival, "c")
    assert not both.held()
    with pytest.raises(NotHeld):
        both.release()


def test_names(lw: Lockwork) -> None:
    """Also: a name given twice would make the second wait for the first for ever."""
    for names in ((), ("a", "a"), ("a b",), ("{x}",), ("",), tuple(f"n{number}" for number in range(101))):
        with pytest.raises(ConfigError):
            lw.multilock(*names)
    with lw.multilock("only") as grant:
        assert list(grant.fences) == ["only"]


def test_extend(lw: Lockwork, rival: Lockwork, several: Several) -> None:
    with several(lw, "a", "b", lease="1s") as grant:
        grant.extend("1h")
        assert grant.remaining > 3000
        assert min(rival.lock(name).remaining() for name in ("a", "b")) > 3000
    assert free(rival, "a", "b")


@pytest.mark.parametrize("part", ["a", "b"])
def test_it_is_lost_with_any_part(lw: Lockwork, rival: Lockwork, part: str) -> None:
    told: list[object] = []
    seen = threading.Event()

    def lost(grant: object) -> None:
        told.append(grant)
        seen.set()

    lock = lw.multilock("a", "b", on_lost=lost)
    grant = lock.acquire()
    assert rival.lock(part).force_release()
    assert seen.wait(30)
    until(lambda: grant.lost, "it knows")
    with pytest.raises(LockLost):
        grant.check()
    rival.lock("b" if part == "a" else "a").force_release()
    with pytest.raises(LockLost, match="multilock 'a, b'"):
        lock.release()
    assert told == [grant]
    assert free(rival, "a", "b")


async def test_the_body_is_cancelled_when_a_part_is_lost(alw: Lockwork, url: str, several: Several) -> None:
    async with Lockwork(url) as rival:
        with pytest.raises(LockLost, match="was cancelled"):
            async with several(alw, "a", "b"):
                await rival.lock("b").aforce_release()
                await asyncio.sleep(30)
        assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]
        async with asyncio.timeout(20):  # the other part is given back, not kept until its lease ends
            async with rival.multilock("a", "b"):
                pass


async def test_asyncio(alw: Lockwork, url: str, several: Several) -> None:
    async with Lockwork(url) as rival:
        async with several(alw, "a", "b") as grant:
            assert await rival.multilock("b", "c").atry_acquire() is None
            await grant.aextend("10s")
            waiting = asyncio.create_task(rival.multilock("b", "c").aacquire())
            while (await alw.lock("b").astate()).waiters == 0:
                await asyncio.sleep(0)
            assert not await alw.lock("x").alocked()
        other = await waiting
        await other.arelease()

        @several(alw, "a", "b")
        async def held() -> bool:
            return await rival.lock("a").alocked()

        assert await held()
        assert not await rival.lock("a").alocked()


async def test_cancelled_at_every_turn(alw: Lockwork, url: str, several: Several) -> None:
    async with Lockwork(url) as rival:
        for busy in (False, True):
            if busy:
                await rival.lock("b").aacquire()
            for count in range(40):
                task = asyncio.create_task(several(alw, "a", "b", "c").aacquire())
                for _ in range(count):
                    await asyncio.sleep(0)
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await (await task).arelease()
                for name in ("a", "c"):
                    state = await rival.lock(name).astate()
                    assert (state.owner, state.waiters) == (None, 0), name
                assert (await rival.lock("b").astate()).waiters == 0
        await rival.lock("b").arelease()


def test_dining_philosophers(url: str, admin: redis.Redis) -> None:
    """Each takes its left and its right fork, in that order: with single locks they would soon starve in a circle."""
    eaten = [0] * 5
    forks = [0] * 5

    def dine(seat: int) -> None:
        with Lockwork(url) as app:
            for _ in range(30):
                left, right = seat, (seat + 1) % 5
                with app.multilock(f"fork{left}", f"fork{right}", wait=60):
                    forks[left] += 1
                    forks[right] += 1
                    assert forks[left] == forks[right] == 1
                    eaten[seat] += 1
                    forks[left] -= 1
                    forks[right] -= 1

    with ThreadPoolExecutor(5) as pool:
        for done in [pool.submit(dine, seat) for seat in range(5)]:
            done.result(60)
    assert eaten == [30] * 5


def test_a_sticky_lock_is_given_back_to_it(lw: Lockwork, rival: Lockwork) -> None:
    with rival.lock("a", sticky=True):
        pass
    with lw.multilock("a", "b", wait=30) as grant:
        assert not grant.lost


def test_a_key_of_another_kind_changes_nothing(lw: Lockwork, rival: Lockwork, admin: redis.Redis) -> None:
    """Scripts are not rolled back: the first lock must not be taken when the second cannot be."""
    admin.set("lw:{lock:b}", "x", ex=60)
    with pytest.raises(ServerRefused, match="multi_acquire"):
        lw.multilock("a", "b").acquire()
    assert free(rival, "a")


def test_release_all_counts_its_parts(lw: Lockwork, rival: Lockwork) -> None:
    grant = lw.multilock("a", "b").acquire()
    assert lw.release_all() >= 1
    assert grant.lost
    assert free(rival, "a", "b")
