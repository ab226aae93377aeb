"""A multilock that waits: for one part at a time, in the order of their names, and never in a circle."""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from locks.multilock.parts import Several, free
from lockwork import LockTimeout, Lockwork
from processes import until


def test_multilock_overtakes_no_waiter(lw: Lockwork, other: Lockwork) -> None:
    """A multilock that does not wait acquires no lock that others wait for."""
    with other.lock("a"), ThreadPoolExecutor(1) as pool:
        turn = pool.submit(lambda: other.lock("a", wait=30).acquire().release())
        until(lambda: other.lock("a").inspect().waiters == 1, "somebody waits")
        assert lw.multilock("a", "b").try_acquire() is None
        assert free(other, "b")
        other.lock("a").release()
        turn.result(30)
        other.lock("a").acquire()


def test_waiting_multilock_holds_no_later_lock(lw: Lockwork, other: Lockwork) -> None:
    other.lock("a").acquire()
    other.lock("c").acquire()
    with ThreadPoolExecutor(1) as pool:
        grant = pool.submit(lw.multilock("c", "b", "a", wait=30).acquire)
        until(lambda: other.lock("a").inspect().waiters == 1, "it waits for the first")
        assert other.lock("c").inspect().waiters == 0
        assert free(other, "b")
        other.lock("a").release()
        until(lambda: other.lock("c").inspect().waiters == 1, "it waits for the last")
        assert other.lock("b").try_acquire() is None, "what was free on the way is taken"
        assert not grant.done()
        other.lock("c").release()
        held = grant.result(30)
        assert not held.lost
        held.release()
    assert free(other, "a", "b", "c")


def test_multilock_does_not_deadlock_with_nested_locks(lw: Lockwork, other: Lockwork) -> None:
    """A user that nests locks in the order of their names does not deadlock with a multilock."""
    other.lock("a").acquire()
    with ThreadPoolExecutor(1) as pool:
        grant = pool.submit(lw.multilock("a", "b", wait=30).acquire)
        until(lambda: other.lock("a").inspect().waiters == 1, "it waits")
        with other.lock("b", wait=10):
            assert not grant.done()
        other.lock("a").release()
        grant.result(30).release()


def test_held_locks_stay_leased_while_the_multilock_waits(lw: Lockwork, other: Lockwork, several: Several) -> None:
    """The multilock's lease is far shorter than its wait."""
    other.lock("b").acquire()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(several(lw, "a", "b", wait=30, lease="1s").acquire)
        until(lambda: other.lock("a").inspect().owner is not None, "it has the first")
        fence = other.lock("a").inspect().fence
        assert other.lock("a", wait=2).try_acquire() is None
        with pytest.raises(LockTimeout):
            other.lock("a", wait=2).acquire()
        assert other.lock("a").inspect().fence == fence
        other.lock("b").release()
        assert waiting.result(30).fences["a"] == fence


async def test_cancelled_at_every_turn(alw: Lockwork, url: str, several: Several) -> None:
    async with Lockwork(url) as other:
        for busy in (False, True):
            if busy:
                await other.lock("b").aacquire()
            for count in range(40):
                task = asyncio.create_task(several(alw, "a", "b", "c").aacquire())
                for _ in range(count):
                    await asyncio.sleep(0)
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await (await task).arelease()
                for name in ("a", "c"):
                    state = await other.lock(name).ainspect()
                    assert (state.owner, state.waiters) == (None, 0), name
                assert (await other.lock("b").ainspect()).waiters == 0
        await other.lock("b").arelease()


def test_dining_philosophers(url: str, admin: redis.Redis) -> None:
    """Each philosopher locks the left fork, then the right: with single locks all would soon wait in a circle."""
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
