"""Waiters of every kind whose state the server lost (FLUSHALL) notice it within seconds without a message."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import redis

from lockwork import Lockwork
from lockwork.errors import LockworkError, RateLimited, ResultUnavailable
from lockwork.protocol.index.index import LIMITERS
from processes import until

SOON = 8.0
"""Seconds: waiters check every 5 s."""
Case = tuple[Callable[[], Any], Callable[[], object]]
"""The wait, and the call after the data loss."""


def lock(lw: Lockwork, other: Lockwork) -> Case:
    other.lock("a").acquire()
    return lambda: lw.lock("a").acquire().release(), lambda: None


def semaphore(lw: Lockwork, other: Lockwork) -> Case:
    other.semaphore("a", 1).acquire()
    return lambda: lw.semaphore("a", 1).acquire().release(), lambda: None


def rwlock(lw: Lockwork, other: Lockwork) -> Case:
    other.rwlock("a").write().acquire()
    return lambda: lw.rwlock("a").read().acquire().release(), lambda: None


def multilock(lw: Lockwork, other: Lockwork) -> Case:
    other.lock("b").acquire()
    return lambda: lw.multilock("a", "b").acquire().release(), lambda: None


def latch(lw: Lockwork, other: Lockwork) -> Case:
    other.latch("a", 2).count_down()
    return lw.latch("a", 2).wait, lambda: other.latch("a", 2).count_down(2)


def barrier(lw: Lockwork, other: Lockwork) -> Case:
    return lw.barrier("a", 2).wait, lambda: other.barrier("a", 2).wait(SOON)


def bucket(lw: Lockwork, other: Lockwork) -> Case:
    other.limiter("a", "1/h").acquire()
    return lw.limiter("a", "1/h").acquire, lambda: None


def window(lw: Lockwork, other: Lockwork) -> Case:
    other.limiter("a", "1/h", algorithm="window").acquire()
    return lw.limiter("a", "1/h", algorithm="window").acquire, lambda: None


def once(lw: Lockwork, other: Lockwork) -> Case:
    started, gate = threading.Event(), threading.Event()

    def run() -> None:
        started.set()
        gate.wait(2 * SOON)

    def lost_run() -> None:
        with suppress(LockworkError):
            other.once("a", "1h").run(run)

    thread = threading.Thread(target=lost_run)
    thread.start()
    started.wait(SOON)

    def wait() -> None:
        try:
            assert lw.once("a", "1h").run(lambda: "mine") == "mine"
        finally:
            gate.set()
            thread.join()

    return wait, lambda: None


def delay_queue(lw: Lockwork, other: Lockwork) -> Case:
    return lambda: lw.delay_queue("a").pop(wait=60), lambda: other.delay_queue("a").add("x")


def stock(lw: Lockwork, other: Lockwork) -> Case:
    """After the data loss the stock has all its units again."""
    other.stock("a", 1).reserve("first")
    return lambda: lw.stock("a", 1).reserve("second", wait=60), lambda: None


def result(lw: Lockwork, other: Lockwork) -> Case:
    @other.task(queue="mail")
    def send() -> None: ...

    job = send.enqueue()

    def wait() -> None:
        with pytest.raises(ResultUnavailable):
            lw.job(job.id, queue="mail").result()

    return wait, lambda: None


KINDS = [
    lock, semaphore, rwlock, multilock, latch, barrier, bucket, window, once, delay_queue, stock, result,
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_waiter_notices_that_its_state_is_lost(
    lw: Lockwork, other: Lockwork, admin: redis.Redis, kind: Callable[[Lockwork, Lockwork], Case]
) -> None:
    wait, act = kind(lw, other)

    def lose() -> None:
        admin.flushdb()
        act()

    assert_ends(lw, wait, lose)


def test_limiter_that_others_use_first_refuses_what_comes_too_late(
    lw: Lockwork, other: Lockwork, admin: redis.Redis
) -> None:
    """After the data loss the caller's next slot is later than the caller may wait."""
    other.limiter("a", "2/h").acquire(2)

    def wait() -> None:
        with pytest.raises(RateLimited):
            lw.limiter("a", "2/h").acquire(2, wait="1h")

    def lose() -> None:
        # the waiter must not come between the loss and the first use
        other.limiter("b", "2/h").acquire(2)
        mine, yours = (LIMITERS.key(lw.config.prefix, name) for name in "ab")
        stored, ttl_ms = admin.dump(yours) or b"", admin.pttl(yours)
        with admin.pipeline() as together:
            together.flushdb()
            together.restore(mine, ttl_ms, stored)
            together.execute()

    assert_ends(lw, wait, lose)


def assert_ends(lw: Lockwork, wait: Callable[[], Any], lose: Callable[[], None]) -> None:
    """Check that the wait ends soon after the data loss."""
    problems: list[BaseException] = []

    def play() -> None:
        try:
            wait()
        except BaseException as error:  # noqa: BLE001 - the test shows it
            problems.append(error)

    waiter = threading.Thread(target=play, daemon=True)
    waiter.start()
    until(lambda: lw.runtime.engine._mail._boxes, "it waits")
    lost = time.monotonic()
    lose()
    waiter.join(SOON)
    assert not waiter.is_alive(), f"it still waits after {time.monotonic() - lost:.1f} s"
    assert not problems
