"""The queue of waiters: first come, first served, for threads, tasks and processes. Callers that give up leave it."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
import redis

from clients import connections
from lockwork import LockTimeout, Lockwork
from processes import script, until

TURN = """
import sys
from lockwork import Lockwork
with Lockwork() as lw:
    lw.lock("x").inspect()
    print("ready", flush=True)
    sys.stdin.readline()
    with lw.lock("x") as grant:
        print(grant.fence, flush=True)
        sys.stdin.readline()
"""


def waiters(lw: Lockwork, count: int) -> None:
    until(lambda: lw.lock("x").inspect().waiters == count, f"{count} wait")


def test_threads_are_granted_in_arrival_order(lw: Lockwork) -> None:
    order: list[tuple[int, int]] = []

    def turn(number: int) -> None:
        with lw.lock("x") as grant:
            order.append((number, grant.fence))

    threads = [threading.Thread(target=turn, args=(number,)) for number in range(12)]
    with lw.lock("x"):
        for count, thread in enumerate(threads, 1):
            thread.start()
            waiters(lw, count)
    for thread in threads:
        thread.join()
    assert [number for number, _ in order] == list(range(12))
    assert [fence for _, fence in order] == sorted(fence for _, fence in order)


async def test_coroutines_are_granted_in_arrival_order(alw: Lockwork) -> None:
    order: list[int] = []

    async def turn(number: int) -> None:
        async with alw.lock("x"):
            order.append(number)
            await asyncio.sleep(0)

    async with alw.lock("x"):
        turns = [asyncio.create_task(turn(number)) for number in range(50)]
        while (await alw.lock("x").ainspect()).waiters < 50:
            await asyncio.sleep(0)
    await asyncio.gather(*turns)
    assert order == list(range(50))


def test_processes_are_granted_in_arrival_order(lw: Lockwork, url: str) -> None:
    with ExitStack() as stack:
        turns = [stack.enter_context(script(TURN, url=url)) for _ in range(3)]
        with lw.lock("x") as first:
            for count, process in enumerate(turns, 1):
                assert process.line() == "ready"
                process.tell("now")
                waiters(lw, count)
        fences = [first.fence]
        for left, process in zip((2, 1, 0), turns, strict=True):
            fences.append(int(process.line()))
            assert lw.lock("x").inspect().waiters == left
            process.tell("go")
        assert [process.wait() for process in turns] == [0, 0, 0]
    assert fences == sorted(set(fences))


def test_release_grants_the_next_waiter(lw: Lockwork) -> None:
    """The next waiter owns the lock before its process asks again, so no other caller can acquire it."""
    held = threading.Event()
    release = threading.Event()

    def next_one() -> None:
        with lw.lock("x"):
            held.set()
            release.wait(30)

    lock = lw.lock("x")
    lock.acquire()
    mine = lock.inspect().owner
    thread = threading.Thread(target=next_one)
    thread.start()
    waiters(lw, 1)
    lock.release()
    owner = lock.inspect().owner
    assert lock.try_acquire() is None
    assert held.wait(30)
    release.set()
    thread.join()
    assert owner not in (None, mine)


def test_wait_0_takes_only_a_free_lock(lw: Lockwork) -> None:
    with lw.lock("x", wait=0), ThreadPoolExecutor(1) as pool:

        def refused() -> None:
            with pytest.raises(LockTimeout, match="lock 'x' is held by another owner"):
                lw.lock("x", wait=0).acquire()

        pool.submit(refused).result()
        assert lw.lock("x").inspect().waiters == 0


def test_short_wait_ends_in_time_and_leaves_no_waiter(lw: Lockwork) -> None:
    def wait_a_little() -> float:
        began = time.monotonic()
        with pytest.raises(LockTimeout, match=r"lock 'x' was not granted within 0\.2 s"):
            lw.lock("x", wait="200ms").acquire()
        return time.monotonic() - began

    with lw.lock("x"), ThreadPoolExecutor(1) as pool:
        assert 0.2 <= pool.submit(wait_a_little).result() < 5
        assert lw.lock("x").inspect().waiters == 0
    assert lw.lock("x").try_acquire() is not None
    lw.lock("x").release()


async def test_coroutine_that_gives_up_does_not_delay_later_waiters(alw: Lockwork) -> None:
    async def impatient() -> None:
        with pytest.raises(LockTimeout):
            await alw.lock("x").aacquire(wait=0.1)

    async def patient() -> None:
        async with alw.lock("x", wait=30):
            pass

    async with alw.lock("x"):
        first = asyncio.create_task(impatient())
        while (await alw.lock("x").ainspect()).waiters < 1:
            await asyncio.sleep(0)
        second = asyncio.create_task(patient())
        await first
        assert (await alw.lock("x").ainspect()).waiters == 1
    await second


async def test_asyncio_timeout_leaves_no_waiter(alw: Lockwork) -> None:
    async with alw.lock("x"):

        async def waiting() -> None:
            async with asyncio.timeout(0.1), alw.lock("x"):
                pass

        with pytest.raises(TimeoutError):
            await asyncio.create_task(waiting())
        assert (await alw.lock("x").ainspect()).waiters == 0


def test_wait_of_a_call_overrides_the_wait_of_the_handle(lw: Lockwork) -> None:
    lock = lw.lock("x", wait=30)
    with lw.lock("x"), ThreadPoolExecutor(1) as pool:
        error = pool.submit(lambda: pytest.raises(LockTimeout, lock.acquire, wait=0)).result()  # noqa: RUF061 - in another thread
    assert "held by another owner" in str(error.value)


async def test_thousand_waiting_tasks_need_three_connections(alw: Lockwork, admin: redis.Redis) -> None:
    turns = 0

    async def turn() -> None:
        nonlocal turns
        async with alw.lock("x"):
            turns += 1

    async with alw.lock("x"):
        tasks = [asyncio.create_task(turn()) for _ in range(1000)]
        while (await alw.lock("x").ainspect()).waiters < 1000:
            await asyncio.sleep(0.01)
        ours = connections(admin)
        assert len(ours) <= 3, ours
    await asyncio.gather(*tasks)
    assert turns == 1000


async def test_calls_of_a_script_that_is_new_to_the_server_keep_their_order(alw: Lockwork, admin: redis.Redis) -> None:
    """Otherwise the first call would be repeated in full, after the later ones."""
    lock = alw.lock("x")
    await lock.ainspect()
    admin.script_flush()
    served: list[int] = []

    async def turn(number: int) -> None:
        for _ in range(number):
            await asyncio.sleep(0)
        async with alw.lock("x"):
            served.append(number)

    await asyncio.gather(*(turn(number) for number in range(20)))
    assert served == sorted(served)
