"""Interrupted at any step, by Ctrl-C or by cancellation, an acquire is owned or undone (L6, L10)."""

from __future__ import annotations

import asyncio
import linecache
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import pytest
import redis

from lockwork import Grant, LockLost, Lockwork, NotHeld
from processes import script, until

WAITS = """
from lockwork import Lockwork
lw = Lockwork()
try:
    print("begins", flush=True)
    with lw.lock("x"):
        print("has it", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    lw.close()
"""


@pytest.fixture
async def rival(url: str, admin: redis.Redis) -> AsyncIterator[Lockwork]:
    async with Lockwork(url) as app:
        yield app


def test_ctrl_c_in_a_blocking_wait(lw: Lockwork, url: str) -> None:
    lock = lw.lock("x")
    with script(WAITS, url=url) as waiter, lock as grant:
        assert waiter.line() == "begins"
        until(lambda: lock.state().waiters == 1, "it waits")
        waiter.send(signal.SIGINT)
        assert waiter.line() == "interrupted"
        assert waiter.wait() == 0
        state = lock.state()
        assert (state.waiters, state.fence) == (0, grant.fence)
    assert not lock.locked()


def test_ctrl_c_just_when_the_lock_is_handed_over(lw: Lockwork, url: str) -> None:
    """Whoever wins: it has the lock and says so, or the lock is free."""
    lock = lw.lock("x")
    for pause in (0.0, 0.001, 0.002, 0.004):
        with script(WAITS, url=url) as waiter:
            with lock:
                assert waiter.line() == "begins"
                until(lambda: lock.state().waiters == 1, "it waits")
            time.sleep(pause)
            waiter.send(signal.SIGINT)
            assert waiter.line() in ("interrupted", "has it")
            waiter.wait()
            # the holder's own body may have been cut by the signal: its lock ends with the process at the latest
            with lw.lock("x", wait=10):
                pass


async def swept(
    lw: Lockwork, rival: Lockwork, what: Callable[[], Coroutine[Any, Any, object]], most: int = 80
) -> tuple[int, int]:
    """Cancel `what` before its k-th turn of the loop, for every k; returns how often that ended it, and how often not.

    After each, the lock "x" must be free, or held still by the rival, and nobody may wait for it.
    """
    ended = finished = 0
    for count in range(most):
        task = asyncio.get_running_loop().create_task(what())
        for _ in range(count):
            await asyncio.sleep(0)
        was_done = task.done()
        task.cancel()
        try:
            await task
            finished += 1
        except asyncio.CancelledError:
            ended += 1
        except LockLost:
            finished += 1
        state = await rival.lock("x").astate()
        assert state.waiters == 0, f"cancelled at turn {count}: it waits still"
        held_by_rival = rival.lock("x").held()
        assert held_by_rival or not state.expires_in, f"cancelled at turn {count}: held by {state.owner}"
        assert not list(lw.runtime.grants), f"cancelled at turn {count}: {lw.runtime.grants}"
        if was_done:
            break
    return ended, finished


async def test_cancelled_at_every_turn_of_a_whole_block(alw: Lockwork, rival: Lockwork) -> None:
    await alw.lock("warm").astate()

    async def block() -> None:
        async with alw.lock("x") as grant:
            assert not grant.lost
            await asyncio.sleep(0)

    ended, finished = await swept(alw, rival, block)
    assert ended > 3
    assert finished


async def test_cancelled_at_every_turn_of_a_nested_block(alw: Lockwork, rival: Lockwork) -> None:
    await alw.lock("warm").astate()

    async def block() -> None:
        async with alw.lock("x"), alw.lock("x"):
            await asyncio.sleep(0)

    assert (await swept(alw, rival, block))[0] > 3


async def test_cancelled_at_every_turn_of_trying(alw: Lockwork, rival: Lockwork) -> None:
    await alw.lock("warm").astate()

    async def attempt() -> None:
        grant = await alw.lock("x").atry_acquire()
        if grant is not None:
            async with grant:
                await asyncio.sleep(0)

    assert (await swept(alw, rival, attempt))[0] > 2
    async with rival.lock("x"):
        assert (await swept(alw, rival, attempt))[0] > 1


async def test_cancelled_at_every_turn_of_an_extension(alw: Lockwork, rival: Lockwork) -> None:
    await alw.lock("warm").astate()

    async def block() -> None:
        async with alw.lock("x", lease=5) as grant:
            await grant.aextend("1h")

    assert (await swept(alw, rival, block))[0] > 4


async def test_cancelled_at_every_turn_of_a_wait(alw: Lockwork, rival: Lockwork) -> None:
    await alw.lock("warm").astate()
    async with rival.lock("x"):
        assert (await swept(alw, rival, alw.lock("x").aacquire, 40))[0] == 40


async def test_cancelled_at_every_turn_of_a_wait_with_a_fixed_lease(alw: Lockwork, rival: Lockwork) -> None:
    """A fixed lease asks once more after the hand-over: cancelled there, too."""
    await alw.lock("warm").astate()
    for count in range(25):
        await rival.lock("x").aacquire()

        async def take() -> None:
            async with alw.lock("x", lease="1h"):
                await asyncio.sleep(0)

        task = asyncio.create_task(take())
        while not (await rival.lock("x").astate()).waiters:
            await asyncio.sleep(0)
        await rival.lock("x").arelease()
        for _ in range(count):
            await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert not await rival.lock("x").alocked(), f"cancelled {count} turns after the hand-over"


@pytest.mark.parametrize("lease", [0.2, None], ids=["fixed", "renewed"])
async def test_a_lost_lock_and_a_cancellation_at_every_turn(
    url: str, admin: redis.Redis, rival: Lockwork, lease: float | None
) -> None:
    """The engine cancels the body for the lost lease, and somebody else cancels the task about the same time."""
    async with Lockwork(url, lock_lease=0.3) as lw:
        for count in range(8):

            async def block() -> None:
                async with lw.lock("x", lease=lease):
                    if lease is None:
                        admin.delete("lw:{lock:x}")
                    await asyncio.sleep(30)

            task = asyncio.create_task(block())
            while not [grant for grant in lw.runtime.grants.values() if grant.lost]:
                await asyncio.sleep(0)
            for _ in range(count):
                await asyncio.sleep(0)
            asked = task.cancel()
            with pytest.raises((asyncio.CancelledError, LockLost)) as caught:
                await task
            # who cancels a task that could still be cancelled gets a cancelled task
            if asked and caught.type is LockLost:
                assert count < 3
            assert not lw.runtime.grants
            with suppress(LockLost):
                async with lw.lock("x", wait=5):
                    pass


async def test_no_cancellation_comes_after_the_block(url: str, admin: redis.Redis) -> None:
    """The lease ends in the very moment in which the block ends: the task must not be cancelled for it later."""
    async with Lockwork(url) as lw:
        for step in range(30):
            lease = 0.05
            end = time.monotonic() + lease - 0.004 + step * 0.0003
            with suppress(LockLost):
                async with lw.lock("x", lease=lease):
                    while time.monotonic() < end:
                        await asyncio.sleep(0)
            for _ in range(5):
                await asyncio.sleep(0.001)
            task = asyncio.current_task()
            assert task is not None
            assert task.cancelling() == 0


@contextmanager
def interrupted_at(line: int, files: tuple[str, ...]) -> Iterator[list[str]]:
    """Raise KeyboardInterrupt in this thread before the given line that is run in one of the files, counted from 0."""
    left = line
    where: list[str] = []

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if not frame.f_code.co_filename.endswith(files):
            return None
        # a tracer also stops where no signal is ever handled: at a bare `try`, and at a block's end before its clean-up
        source = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        if event == "line" and not where and not source.lstrip().startswith(("with ", "try:")):
            if left == 0:
                where.append(f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno}")
                raise KeyboardInterrupt
            left -= 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield where
    finally:
        sys.settrace(before)


DRIVER = ("protocol/grants.py", "runtime/sync.py", "runtime/wire.py", "runtime/mailboxes.py", "runtime/engine.py")


def test_ctrl_c_at_every_line_of_a_blocking_acquire(url: str, admin: redis.Redis) -> None:
    """While a protocol runs, an interruption anywhere leaves the lock free or held by who can release it."""
    with Lockwork(url, lock_lease=3) as lw:
        with lw.lock("warm"):
            pass
        line = 0
        names: dict[str, str] = {}
        while True:
            name = f"x{line}"
            where: list[str] = []
            grant: Grant | None = None
            try:
                with interrupted_at(line, DRIVER) as where:
                    grant = lw.lock(name).acquire()
            except KeyboardInterrupt:
                names[name] = where[0]
            if grant is not None and not where:
                grant.release()
                break
            line += 1
            assert line < 500
        assert line > 20
        end = time.monotonic() + 5
        left = set(names)
        while left and time.monotonic() < end:
            left = {name for name in left if lw.lock(name).locked()}
            threading.Event().wait(0.05)
        assert not left, f"renewed for ever after an interruption at {sorted({names[name] for name in left})}"
        assert not lw.runtime.grants or all(grant.lost for grant in lw.runtime.grants.values())


def test_ctrl_c_at_every_line_of_a_sticky_turn(url: str, admin: redis.Redis) -> None:
    """A lock that was taken out of the process's store, and then nobody has it, would be renewed for ever."""
    with Lockwork(url, lock_lease=1) as lw, Lockwork(url) as other:
        names: dict[str, str] = {}
        line = 0
        while True:
            name = f"x{line}"
            with lw.lock(name, sticky=True):
                pass
            where: list[str] = []
            grant: Grant | None = None
            try:
                with interrupted_at(line, ("locks/sticky.py", "runtime/kept.py")) as where:
                    grant = lw.lock(name, sticky=True).acquire()
                    grant = grant.release()  # type: ignore[func-returns-value]
            except KeyboardInterrupt:
                names[name] = where[0]
                # the app goes on, and its error handling ends what it knows of
                with suppress(NotHeld, LockLost):
                    lw.lock(name).release_all()
            if not where:
                break
            line += 1
            assert line < 200
        assert line > 10
        end = time.monotonic() + 6
        left = set(names)
        while left and time.monotonic() < end:
            for name in list(left):
                taken = other.lock(name).try_acquire()
                if taken is not None:
                    taken.release()
                    left.discard(name)
            threading.Event().wait(0.05)
        assert not left, f"renewed for ever after an interruption at {sorted({names[name] for name in left})}"


def test_ctrl_c_at_every_line_of_the_engines_start(url: str, admin: redis.Redis) -> None:
    """The app that goes on after Ctrl-C, as in a notebook, has an engine, and can be closed."""
    for line in range(40):
        with Lockwork(url) as lw:
            lw.lock("warm").state()
            with suppress(KeyboardInterrupt), interrupted_at(line, ("runtime/engine.py",)) as where:
                lw.lock("x").acquire()
            grant = lw.lock("y").acquire()
            thread = lw.runtime.engine._thread
            assert thread is not None, where
            assert thread.is_alive(), f"no engine after an interruption at {where}"
            grant.release()
        if not where:
            return
