"""Dead waiters, and waiters that gave up, do not delay the others."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
import redis

from commandstats import command_calls
from lockwork import Lockwork
from lockwork.protocol.effects import script_call
from lockwork.protocol.locks.grants import CLAIM_MS
from lockwork.protocol.scripts import script
from processes import script as program
from processes import until

CROWD = """
import asyncio, sys
from lockwork import Lockwork

async def main():
    async with Lockwork() as lw:
        handle = {handle}
        waiting = [asyncio.create_task(handle.aacquire()) for _ in range({count})]
        await asyncio.wait(waiting)

asyncio.run(main())
"""
LOCK = "lw.lock('x')"


def ask(admin: redis.Redis, request: str, channel: str, *, wait: int = 1, name: str = "x") -> list[int]:
    """Send a request for a lock, as a process with this channel does; return the reply."""
    args = (f"p:{request}", request, 15_000, CLAIM_MS, wait, channel)
    call = script_call("locks/acquire", f"lw:{{lock:{name}}}", args)
    reply: list[int] = admin.eval(call.script.source, 1, *call.keys, *call.args)
    return reply


def fill(admin: redis.Redis, count: int, channel: str, first: int = 0) -> None:
    """Add many waiters."""
    sha = admin.script_load(script("locks/acquire").source)
    for start in range(first, first + count, 1000):
        with admin.pipeline(transaction=False) as pipe:
            for number in range(start, min(start + 1000, first + count)):
                args = (f"p:{number}", f"n{number}", 15_000, CLAIM_MS, 1, channel)
                pipe.evalsha(sha, 1, "lw:{lock:x}", *args)
            pipe.execute()


def give_up(admin: redis.Redis, count: int) -> None:
    """Remove the waiters in reverse order."""
    sha = admin.script_load(script("locks/abandon").source)
    for start in range(0, count, 1000):
        with admin.pipeline(transaction=False) as pipe:
            for number in range(start, min(start + 1000, count)):
                pipe.evalsha(sha, 1, "lw:{lock:x}", f"p:{count - 1 - number}", f"n{count - 1 - number}")
            pipe.execute()


def take_turn(lw: Lockwork) -> float:
    """Acquire the lock, and return the time (monotonic clock)."""
    with lw.lock("x"):
        return time.monotonic()


def waiting(lw: Lockwork, kind: str) -> int:
    if kind == "lock":
        return lw.lock("x").inspect().waiters
    return lw.rwlock("x").inspect().waiting if kind == "rwlock" else lw.semaphore("x", 2).inspect().waiting


@pytest.mark.parametrize("kind", ["lock", "semaphore", "rwlock"])
def test_waiters_of_a_killed_process_do_not_delay_the_next(lw: Lockwork, url: str, kind: str) -> None:
    """Eight dead waiters, all without a time-out, are ahead of a live one."""
    handles = {"lock": LOCK, "semaphore": "lw.semaphore('x', 2, units=2)", "rwlock": "lw.rwlock('x').write()"}
    handle = eval(handles[kind], {"lw": lw})
    grant = handle.acquire()
    with ExitStack() as stack:
        crowd = stack.enter_context(program(CROWD.format(handle=handles[kind], count=8), url=url))
        until(lambda: waiting(lw, kind) == 8, "eight wait")
        pool = stack.enter_context(ThreadPoolExecutor(1))
        entered: list[float] = []

        def live() -> None:
            with handle:
                entered.append(time.monotonic())

        done = pool.submit(live)
        until(lambda: waiting(lw, kind) == 9, "the live one waits")
        crowd.process.kill()
        crowd.process.wait()
        released = time.monotonic()
        grant.release()
        done.result(30)
        assert entered[0] - released < 2.5  # a claim is 4 s, and there were eight


def test_lock_serves_live_waiters_while_processes_of_waiters_die(lw: Lockwork, url: str) -> None:
    stop, turns = threading.Event(), []

    def live() -> None:
        while not stop.is_set():
            with lw.lock("x"):
                turns.append(time.monotonic())
                time.sleep(0.01)

    with ThreadPoolExecutor(2) as pool:
        users = [pool.submit(live) for _ in range(2)]
        for _ in range(4):
            with program(CROWD.format(handle=LOCK, count=8), url=url) as crowd:
                until(lambda: waiting(lw, "lock") >= 4, "they wait among the others", 10)
                crowd.process.kill()
                crowd.process.wait()
            expected = len(turns) + 4
            until(lambda: len(turns) >= expected, "the live ones have their turns", 10)  # noqa: B023
        stop.set()
        for user in users:
            user.result(60)


def test_frozen_process_costs_one_unclaimed_hand_over(lw: Lockwork, url: str) -> None:
    """The frozen process is still subscribed; one unclaimed grant marks all eight waiters as unresponsive."""
    grant = lw.lock("x").acquire()
    with program(CROWD.format(handle=LOCK, count=8), url=url) as crowd:
        until(lambda: waiting(lw, "lock") == 8, "eight wait")
        with ThreadPoolExecutor(1) as pool:
            entered = pool.submit(take_turn, lw)
            until(lambda: waiting(lw, "lock") == 9, "the live one waits")
            os.kill(crowd.pid, signal.SIGSTOP)
            released = time.monotonic()
            grant.release()
            assert entered.result(60) - released < 8  # one claim of 4 s, and a second; two claims take more than 8 s
        crowd.process.kill()
        crowd.process.wait()


def test_waiter_without_subscription_keeps_its_place(lw: Lockwork, admin: redis.Redis) -> None:
    """A live waiter without a subscription (not yet confirmed, or broken) keeps its place if it calls in time."""
    grant = lw.lock("x").acquire()
    assert ask(admin, "deaf", "lw:wake:nobody")[0] == 0
    assert ask(admin, "deaf", "lw:wake:nobody")[1] <= 500
    assert ask(admin, "second", "lw:wake:nobody")[0] == 0
    grant.release()
    assert ask(admin, "second", "lw:wake:nobody")[0] == 0
    assert ask(admin, "deaf", "lw:wake:nobody")[0] == 1


def test_skipped_waiter_is_first_when_it_asks(lw: Lockwork, admin: redis.Redis) -> None:
    with admin.pubsub() as ear:  # type: ignore[no-untyped-call]
        ear.subscribe("lw:wake:ear")
        ear.get_message(timeout=10)
        grant = lw.lock("x").acquire()
        assert ask(admin, "first", "lw:wake:ear")[0] == 0
        ear.unsubscribe("lw:wake:ear")
        until(lambda: admin.pubsub_numsub("lw:wake:ear")[0][1] == 0, "its connection broke")
        with ThreadPoolExecutor(1) as pool:
            until(lambda: admin.pubsub_numsub("lw:wake:ear")[0][1] == 0, "it is gone")
            second = pool.submit(lw.lock("x").acquire)
            until(lambda: waiting(lw, "lock") == 2, "two wait")
            grant.release()
            passed_on = second.result(30)
            assert ask(admin, "first", "lw:wake:ear")[0] == 0
            assert ask(admin, "third", "lw:wake:ear")[0] == 0
            pool.submit(passed_on.release).result()
        assert ask(admin, "third", "lw:wake:ear")[0] == 0
        assert ask(admin, "first", "lw:wake:ear")[0] == 1


def test_free_lock_is_granted_at_once_after_many_gave_up(lw: Lockwork, admin: redis.Redis) -> None:
    """Thousands of abandoned waiters are between the holder and a live waiter."""
    grant = lw.lock("x").acquire()
    with ThreadPoolExecutor(2) as pool:
        fill(admin, 6000, "lw:wake:nobody")
        live = pool.submit(take_turn, lw)
        until(lambda: admin.hget("lw:{lock:x}", "t") == b"6001", "the last one waits")
        give_up(admin, 6000)
        released = time.monotonic()
        grant.release()
        assert live.result(60) - released < 2
        assert pool.submit(lw.lock("x").try_acquire).result() is not None


def test_free_lock_is_granted_at_once_without_waiting(lw: Lockwork, admin: redis.Redis) -> None:
    """All waiters are dead, and there are more of them than one call may remove."""
    grant = lw.lock("x").acquire()
    fill(admin, 6000, "lw:wake:nobody")
    grant.release()
    until(lambda: lw.lock("x").try_acquire() is not None, "they were to look within half a second", 4)


def test_looking_at_a_lock_does_not_block_the_server(lw: Lockwork, admin: redis.Redis) -> None:
    """A look reads a limited number of places, in commands of at most 100."""
    lock = lw.lock("x")

    def reads(look: Callable[[], object]) -> int:
        before = command_calls(admin, "hmget", "hget")
        look()
        return command_calls(admin, "hmget", "hget") - before

    with lock:
        fill(admin, 10_000, "lw:wake:nobody")
        assert lock.inspect().waiters == 10_000
        assert reads(lock.inspect) < 20
        assert reads(lw.locks) < 300
        for look in (lock.locked, lock.owner, lock.remaining):
            assert reads(look) == 1, look
