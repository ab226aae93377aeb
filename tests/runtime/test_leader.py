"""A waiting thread reads the subscription itself, also for other waiters, wherever it is interrupted."""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from weakref import ref

import pytest

from locks.interrupting import interrupted_at
from lockwork import LockTimeout, Lockwork
from lockwork.locks.grant import Grant
from lockwork.runtime.clock import now
from lockwork.runtime.leader import Leadership, ThreadBox
from processes import until

pytestmark = pytest.mark.skipif(not hasattr(select, "epoll"), reason="only with epoll")
FILES = ("runtime/leader.py", "runtime/pubsub.py")
MOST = 400
PROMPT = 0.4
"""Seconds; without its message, the first waiter checks after a second."""


def leadership(lw: Lockwork) -> Leadership:
    return lw.runtime.engine._leadership


def subscribed(lw: Lockwork) -> None:
    lw.runtime.engine.listen()
    until(lambda: lw.runtime.subscribed, "the app is subscribed")


class Aside:
    """Run a call on another thread within the block."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.thread = threading.Thread(target=call, daemon=True)

    def __enter__(self) -> threading.Thread:
        self.thread.start()
        return self.thread

    def __exit__(self, *_: object) -> None:
        self.thread.join(20)
        assert not self.thread.is_alive(), "the wait ends"


def leads(lw: Lockwork) -> bool:
    leader = leadership(lw).leader()
    return leader is not None and leader.leading


def take(lw: Lockwork, name: str, times: dict[str, float]) -> Callable[[], None]:
    def call() -> None:
        with lw.lock(name):
            times[name] = time.monotonic()

    return call


def test_waiting_thread_reads_its_message(lw: Lockwork, other: Lockwork) -> None:
    subscribed(lw)
    times: dict[str, float] = {}
    held = other.lock("a").acquire()
    with Aside(take(lw, "a", times)):
        until(lambda: leads(lw), "the thread leads")
        released = time.monotonic()
        held.release()
    assert times["a"] - released < PROMPT
    assert leadership(lw).leader() is None


def test_leader_delivers_messages_of_followers(lw: Lockwork, other: Lockwork) -> None:
    subscribed(lw)
    times: dict[str, float] = {}
    grants = [other.lock(name).acquire() for name in ("a", "b", "c")]
    with Aside(take(lw, "a", times)):
        until(lambda: leads(lw), "the first thread leads")
        first = leadership(lw).leader()
        with Aside(take(lw, "b", times)):
            until(lambda: other.lock("b").inspect().waiters, "the second waits")
            released = time.monotonic()
            grants[1].release()
        assert times["b"] - released < PROMPT
        assert leadership(lw).leader() is first
        with Aside(take(lw, "c", times)):
            until(lambda: other.lock("c").inspect().waiters, "the third waits")
            grants[0].release()
            until(lambda: leadership(lw).leader() is not first, "the engine reads, or the third thread checked again")
            released = time.monotonic()
            grants[2].release()
        assert times["c"] - released < PROMPT


def test_interrupted_anywhere_the_next_wait_is_prompt(lw: Lockwork, other: Lockwork) -> None:
    subscribed(lw)
    lock, places = lw.lock("a"), 0
    held = other.lock("a").acquire()
    for place in range(MOST):
        with suppress(KeyboardInterrupt, LockTimeout), interrupted_at(place, FILES) as where:
            lock.acquire(wait=0.002)
        places += bool(where)
        if not where:
            break
        assert not leads(lw)
        until(lambda: lw.runtime.subscribed, "the app is subscribed again")
        if place % 4 == 0:
            held = _granted_promptly(lw, other, held)
    assert places > 20
    _granted_promptly(lw, other, held).release()


def _granted_promptly(lw: Lockwork, other: Lockwork, held: Grant) -> Grant:
    times: dict[str, float] = {}
    with Aside(take(lw, "a", times)):
        until(lambda: other.lock("a").inspect().waiters, "the thread waits")
        released = time.monotonic()
        held.release()
    assert times["a"] - released < PROMPT
    return other.lock("a").acquire()


def test_handler_that_waits_while_the_interrupted_thread_leads(lw: Lockwork, other: Lockwork) -> None:
    subscribed(lw)
    held, waits = other.lock("a").acquire(), 0

    def wait() -> None:
        nonlocal waits
        with suppress(LockTimeout):
            lw.lock("a").acquire(wait=0.002)
        waits += 1

    for place in range(MOST):
        until(lambda: lw.runtime.subscribed, "the app is subscribed")
        with interrupted_at(place, FILES, wait) as where:
            wait()
        if not where:
            break
    assert waits > 40
    _granted_promptly(lw, other, held).release()


def test_engine_reads_after_a_leader_that_never_left(lw: Lockwork, other: Lockwork) -> None:
    subscribed(lw)
    roles = leadership(lw)

    def interrupted() -> None:
        box = ThreadBox(roles)
        box.thread = 1
        roles._leader[None] = ref(box, roles._abandoned)
        assert roles.source is not None
        roles.source.pause(paused=True)

    interrupted()
    until(lambda: roles.leader() is None and not roles._leader, "the engine reads again")
    _granted_promptly(lw, other, other.lock("a").acquire()).release()


def test_closed_app_wakes_its_leader(other: Lockwork, url: str) -> None:
    held = other.lock("a").acquire()
    app = Lockwork(url)
    subscribed(app)
    began = now()
    with Aside(lambda: app.runtime.engine.wait("t", now() + 20, "k", now())):
        until(lambda: leads(app), "the thread leads")
        app.close()
    assert now() - began < 10
    held.release()
