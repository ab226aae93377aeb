"""Locks under faults: killed and stopped holders, broken connections, forgotten scripts."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from lockwork import Lockwork
from processes import script, until

HOLDER = """
import sys
from lockwork import LockLost, Lockwork
with Lockwork(lock_lease=sys.argv[1]) as lw:
    told = []
    try:
        with lw.lock("x", on_lost=told.append) as grant:
            print(grant.fence, flush=True)
            sys.stdin.readline()
            print("lost" if grant.lost else "held", flush=True)
            while grant.lost and not told:
                pass
    except LockLost:
        print("LockLost", len(told), flush=True)
    else:
        print("released", len(told), flush=True)
"""

WAITER = """
from lockwork import Lockwork
with Lockwork() as lw:
    lw.lock("x").acquire()
"""


def test_killed_holder_delays_the_next_by_its_lease_at_most(lw: Lockwork, url: str) -> None:
    with script(HOLDER, "2s", url=url) as holder:
        fence = int(holder.line())
        holder.send(signal.SIGKILL)
        holder.wait()
        remaining = lw.lock("x").inspect().expires_in
        began = time.monotonic()
        with lw.lock("x", wait=30) as grant:
            assert time.monotonic() - began < remaining + 1.5  # L4
            assert grant.fence > fence


def test_killed_waiter_is_skipped_after_its_claim_time(lw: Lockwork, url: str) -> None:
    """The server may grant the lock to the dead waiter, but only for the short claim time."""
    with lw.lock("x") as first, script(WAITER, url=url) as waiter:
        until(lambda: lw.lock("x").inspect().waiters == 1, "it waits")
        waiter.send(signal.SIGKILL)
        waiter.wait()
    began = time.monotonic()
    with lw.lock("x", wait=30) as second:
        assert second.fence > first.fence
    assert time.monotonic() - began < 8


def test_holder_stopped_past_its_lease_is_notified_of_the_loss(lw: Lockwork, url: str) -> None:
    with script(HOLDER, "1s", url=url) as holder:
        fence = int(holder.line())
        holder.send(signal.SIGSTOP)
        with lw.lock("x", wait=30) as grant:
            assert grant.fence > fence
            holder.send(signal.SIGCONT)
            holder.tell("go on")
            assert holder.line() == "lost"
            assert holder.line() == "LockLost 1"
            assert not grant.lost
            assert lw.lock("x").inspect().fence == grant.fence


def kill_clients(admin: redis.Redis, kind: str) -> None:
    admin.execute_command("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("kind", ["normal", "pubsub"])
def test_broken_connections_while_threads_wait(lw: Lockwork, admin: redis.Redis, kind: str) -> None:
    done: list[int] = []

    def turn(number: int) -> None:
        with lw.lock("x"):
            kill_clients(admin, kind)
            done.append(number)

    with lw.lock("x") as grant:
        threads = [threading.Thread(target=turn, args=(number,)) for number in range(5)]
        for count, thread in enumerate(threads, 1):
            thread.start()
            until(lambda count=count: lw.lock("x").inspect().waiters == count, "it waits")  # type: ignore[misc]
        for _ in range(3):
            kill_clients(admin, kind)
        assert not grant.lost
    for thread in threads:
        thread.join()
    assert done == list(range(5))


@pytest.mark.parametrize("kind", ["normal", "pubsub"])
async def test_broken_connections_while_tasks_wait(alw: Lockwork, admin: redis.Redis, kind: str) -> None:
    await alw.lock("x").ainspect()
    done: list[int] = []

    async def turn(number: int) -> None:
        async with alw.lock("x"):
            kill_clients(admin, kind)
            done.append(number)

    async with alw.lock("x") as grant:
        tasks = [asyncio.create_task(turn(number)) for number in range(10)]
        while (await alw.lock("x").ainspect()).waiters < 10:
            await asyncio.sleep(0)
        kill_clients(admin, kind)
        assert not grant.lost
    await asyncio.gather(*tasks)
    assert done == list(range(10))


def test_holder_survives_broken_connections(url: str, admin: redis.Redis) -> None:
    with Lockwork(url, lock_lease=2) as lw, lw.lock("x") as grant:
        end = time.monotonic() + 2.7
        while time.monotonic() < end:
            kill_clients(admin, "normal")
            kill_clients(admin, "pubsub")
            threading.Event().wait(0.05)
        assert not grant.lost
        assert lw.lock("x").inspect().fence == grant.fence


def test_forgotten_scripts_are_sent_again(url: str, admin: redis.Redis) -> None:
    with Lockwork(url, lock_lease=1) as lw, lw.lock("held") as held, ThreadPoolExecutor(4) as pool:
        end = time.monotonic() + 1.5

        def turns() -> int:
            count = 0
            while time.monotonic() < end:
                with lw.lock("x"):
                    count += 1
            return count

        futures = [pool.submit(turns) for _ in range(4)]
        while time.monotonic() < end:
            admin.script_flush()
            threading.Event().wait(0.002)
        assert all(future.result() for future in futures)
        assert not held.lost


async def test_forgotten_scripts_are_sent_again_by_tasks_at_once(alw: Lockwork, admin: redis.Redis) -> None:
    async def turns(number: int) -> None:
        for _ in range(10):
            async with alw.lock(f"x{number % 3}"):
                admin.script_flush()

    await asyncio.gather(*(turns(number) for number in range(12)))
