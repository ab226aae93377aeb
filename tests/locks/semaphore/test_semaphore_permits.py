"""Semaphores: a limited number of units at a time, in order, with independent grants."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis

from indexed import keys_but_indexes
from lockwork import ConfigError, LockLost, LockTimeout, Lockwork, NotHeld
from lockwork.locks import semaphore
from processes import until


def waiting(lw: Lockwork, count: int) -> None:
    until(lambda: lw.semaphore("gpu", 2).inspect().waiting == count, f"{count} wait")


def test_permits_are_limited(lw: Lockwork) -> None:
    gpu = lw.semaphore("gpu", 2)
    with gpu as first, gpu as second:
        assert first is not second
        assert second.fence > first.fence
        assert gpu.available() == 0
        assert gpu.try_acquire() is None
        with pytest.raises(LockTimeout, match="semaphore 'gpu'"):
            gpu.acquire(wait="50ms")
    assert gpu.available() == 2
    assert first.lost
    assert second.lost


async def test_permits_are_limited_for_asyncio_tasks(alw: Lockwork) -> None:
    gpu = alw.semaphore("gpu", 3)
    most = now = 0

    async def turn() -> None:
        nonlocal most, now
        async with gpu:
            now += 1
            most = max(most, now)
            await asyncio.sleep(0)
            now -= 1

    await asyncio.gather(*(turn() for _ in range(60)))
    assert most == 3
    assert await gpu.aavailable() == 3


def test_grants_are_released_separately_and_from_any_thread(lw: Lockwork) -> None:
    gpu = lw.semaphore("gpu", 3)
    first, second, third = gpu.acquire(), gpu.acquire(), gpu.acquire()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(second.release).result()
    assert second.lost
    assert not first.lost
    assert gpu.available() == 1
    with pytest.raises(NotHeld, match="already released"):
        second.release()
    assert gpu.available() == 1, "a second release gives nothing back"
    gpu.release()
    assert third.lost, "release() gives back what was taken last"
    first.release()
    assert not gpu.held()
    with pytest.raises(NotHeld):
        gpu.release()


def test_end_of_a_body_releases_its_own_permit(lw: Lockwork) -> None:
    gpu = lw.semaphore("gpu", 3)
    with gpu as outer:
        inner = gpu.acquire()
    assert outer.lost
    assert not inner.lost
    with gpu as given_up:
        given_up.release()
        assert gpu.available() == 2
    assert not inner.lost
    inner.release()
    assert gpu.available() == 3


async def test_release_all(alw: Lockwork) -> None:
    gpu = alw.semaphore("gpu", 3)
    grants = [await gpu.aacquire() for _ in range(3)]
    await gpu.arelease_all()
    assert all(grant.lost for grant in grants)
    assert await gpu.aavailable() == 3
    for _ in range(2):
        await gpu.aacquire()
    assert await alw.arelease_all() == 2
    assert await gpu.aavailable() == 3


def test_child_thread_holds_no_grant_of_its_parent(lw: Lockwork) -> None:
    gpu = lw.semaphore("gpu", 2)
    with gpu, ThreadPoolExecutor(1) as pool:
        assert not pool.submit(gpu.held).result()
        assert gpu.held()


def test_large_requests_are_not_passed_by_small_ones(lw: Lockwork) -> None:
    """A request for six of eight units waits while four are free; a later request for three waits behind it."""
    order: list[str] = []

    def turn(name: str, units: int) -> None:
        with lw.semaphore("gpu", 8, units=units):
            order.append(name)

    held = lw.semaphore("gpu", 8, units=4).acquire()
    threads = [threading.Thread(target=turn, args=("large", 6)), threading.Thread(target=turn, args=("small", 3))]
    for count, thread in enumerate(threads, 1):
        thread.start()
        waiting(lw, count)
    assert lw.semaphore("gpu", 8).try_acquire() is None, "somebody waits"
    assert order == []
    held.release()
    for thread in threads:
        thread.join()
    assert order[0] == "large"


def test_several_are_let_in_at_once_when_many_units_come_back(lw: Lockwork) -> None:
    gate = threading.Barrier(4)

    def turn() -> None:
        with lw.semaphore("gpu", 3):
            gate.wait(20)  # all three are in at the same time

    held = lw.semaphore("gpu", 3, units=3).acquire()
    threads = [threading.Thread(target=turn) for _ in range(3)]
    for count, thread in enumerate(threads, 1):
        thread.start()
        waiting(lw, count)
    held.release()
    gate.wait(20)
    for thread in threads:
        thread.join()


def test_newest_number_of_permits_counts(lw: Lockwork) -> None:
    old, new = lw.semaphore("gpu", 2), lw.semaphore("gpu", 4)
    grants = [old.acquire(), old.acquire()]
    assert old.try_acquire() is None
    grants += [new.acquire(), new.acquire()]
    assert new.available() == 0
    assert old.try_acquire() is None
    assert old.inspect().capacity == 2
    for grant in grants[:3]:
        assert not grant.lost, "who is in stays in"
        grant.release()
    assert old.available() == 1
    grants[3].release()


def test_raising_permits_grants_waiters(lw: Lockwork) -> None:
    entered = threading.Event()

    def turn() -> None:
        with lw.semaphore("gpu", 1):
            entered.set()

    with lw.semaphore("gpu", 1):
        thread = threading.Thread(target=turn)
        thread.start()
        waiting(lw, 1)
        with lw.semaphore("gpu", 3):
            assert entered.wait(20)
        thread.join()


def test_as_a_decorator(lw: Lockwork) -> None:
    @lw.semaphore("gpu:{number}", 1)
    def busy(number: int) -> int:
        return lw.semaphore(f"gpu:{number}", 1).available()

    assert busy(3) == 0
    assert lw.semaphore("gpu:3", 1).available() == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"permits": 0}, "permits must be a whole number from 1"),
        ({"permits": True}, "permits must be a whole number"),
        ({"permits": 2, "units": 3}, "units must be a whole number from 1 to 2, not 3"),
        ({"permits": 2, "name": 5}, "a semaphore's name must be text, not 5"),
        ({"permits": 2, "wait": -1}, "wait"),
        ({"permits": 2, "tags": "one"}, "tags are a list"),
    ],
)
def test_semaphore_refuses_wrong_options(lw: Lockwork, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        lw.semaphore(**{"name": "gpu", **options})


def test_wrong_list_lengths_are_refused(lw: Lockwork) -> None:
    looks: tuple[Any, ...] = (lw.semaphore("gpu", 2).inspect, lw.rwlock("doc").inspect)
    for look in looks:
        for wrong in (-1, "all", True, None):
            with pytest.raises(ConfigError, match="waiters must be a whole number from 0"):
                look(waiters=wrong)
    with pytest.raises(ConfigError, match="holders must be a whole number from 0"):
        looks[0](holders="all")
    with pytest.raises(ConfigError, match="readers must be a whole number from 0"):
        looks[1](readers="all")


def test_single_key_expires(lw: Lockwork, admin: redis.Redis) -> None:
    gpu = lw.semaphore("gpu", 2)
    with gpu:
        (key,) = keys_but_indexes(admin)
        assert key == b"lw:{sem:gpu}"
        assert 60 < admin.ttl(key) <= 75
    assert 0 < admin.ttl(key) <= 60
    assert int(admin.hlen(key)) == 7, "nothing is left but the books' own sums"


def test_process_keeps_no_state_of_released_permits(lw: Lockwork) -> None:
    gpu = lw.semaphore("gpu", 4)
    grants = [gpu.acquire() for _ in range(4)]
    for grant in grants:
        grant.release()
    with gpu, gpu:
        pass
    assert not lw.runtime.holds
    del grant, grants
    assert not [place for place in semaphore._stacks if place[0] == lw.runtime.process]


def test_unreleased_permits_do_not_pile_up(lw: Lockwork) -> None:
    """A caller that acquires a permit for a fixed time need not release it."""
    gpu = lw.semaphore("gpu", 1, lease=0.1, wait=20)
    first = gpu.acquire()
    for _ in range(8):
        gpu.acquire()
    assert len(lw.runtime.holds) <= 3
    with pytest.raises(LockLost):
        first.release()
    lw.release_all()
