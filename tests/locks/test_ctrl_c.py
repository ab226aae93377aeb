"""Interrupted by Ctrl-C at any step, an acquire is owned or undone, and a release leaves nothing renewed (L6, L10)."""

from __future__ import annotations

import gc
import signal
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
import redis

from locks.interrupting import interrupted_at
from locks.kinds import HANDLES, taken
from lockwork import LockLost, LockTimeout, Lockwork, NotHeld
from lockwork.locks import Grant
from processes import script, until

WAITS = """
import os
from lockwork import Lockwork
lw = Lockwork()
try:
    os.write(1, b"begins\\n")
    with lw.lock("x"):
        os.write(1, b"has it\\n")  # as one write: the signal may come between the two of a print
except KeyboardInterrupt:
    os.write(1, b"interrupted\\n")
    lw.close()
"""


# a connection that was being taken from the pool is lost, and closed by the garbage collector
pytestmark = pytest.mark.filterwarnings("ignore:.*<socket.socket", "ignore:unclosed <socket:ResourceWarning")


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    yield
    gc.collect()


_ACQUIRE = (
    "protocol/locks/grants.py",
    "protocol/locks/multilock.py",
    "runtime/sync_driver.py",
    "runtime/sync_pool.py",
    "runtime/sync_connection.py",
    "runtime/wakeups.py",
    "runtime/engine.py",
    "locks/handle.py",
    "locks/hold.py",
    "locks/options.py",
    "locks/sticky.py",
    "locks/semaphore.py",
    "locks/rwlock.py",
    "locks/lock.py",
    "locks/multilock.py",
)
"""Everything that runs between a caller and the server when a lock is acquired."""
_RELEASE = (*_ACQUIRE, "locks/grant.py", "runtime/runtime.py", "protocol/locks/leases.py")


def test_ctrl_c_in_a_blocking_wait(lw: Lockwork, url: str) -> None:
    lock = lw.lock("x")
    with script(WAITS, url=url) as waiter, lock as grant:
        assert waiter.line() == "begins"
        until(lambda: lock.inspect().waiters == 1, "it waits")
        waiter.send(signal.SIGINT)
        assert waiter.line() == "interrupted"
        assert waiter.wait() == 0
        state = lock.inspect()
        assert (state.waiters, state.fence) == (0, grant.fence)
    assert not lock.locked()


def test_ctrl_c_just_when_the_lock_is_handed_over(lw: Lockwork, url: str) -> None:
    """Whoever wins: it has the lock and says so, or the lock is free."""
    lock = lw.lock("x")
    for pause in (0.0, 0.001, 0.002, 0.004):
        with script(WAITS, url=url) as waiter:
            with lock:
                assert waiter.line() == "begins"
                until(lambda: lock.inspect().waiters == 1, "it waits")
            time.sleep(pause)
            waiter.send(signal.SIGINT)
            assert waiter.line() in ("interrupted", "has it")
            waiter.wait()
            # the signal may have cut the way out of the holder's block: then its lock ends with the lease
            with lw.lock("x", wait=30):
                pass


@pytest.mark.parametrize("kind", HANDLES)
def test_an_acquire(url: str, admin: redis.Redis, kind: str) -> None:
    """Afterwards it is free, and nothing in this process knows of it."""
    with Lockwork(url) as lw:
        for place in range(1000):
            name = f"x{place}"
            with suppress(KeyboardInterrupt), interrupted_at(place, _ACQUIRE) as where:
                HANDLES[kind](lw, name).acquire()
            if not where:
                break
            until(lambda name=name: not taken(lw, kind, name), f"free after {where}", patience=5)  # type: ignore[misc]
            assert not lw.runtime.holds, where
            assert not lw.runtime.live, where
        assert place > 20


def test_an_adoption(url: str, admin: redis.Redis) -> None:
    """Afterwards it is free, or still to be adopted."""
    with Lockwork(url) as lw:
        for place in range(1000):
            lock = lw.lock(f"x{place}")
            lock.acquire()
            exported = lock.export()
            with suppress(KeyboardInterrupt), interrupted_at(place, _ACQUIRE) as where:
                lock.adopt(exported)
            if not where:
                break
            with suppress(LockLost):
                lock.adopt(exported).release()
            assert not lock.locked(), where
            assert not lw.runtime.holds, where
        assert place > 20


@pytest.mark.parametrize("kind", ["lock", "semaphore", "multilock"])
def test_a_wait(lw: Lockwork, url: str, kind: str) -> None:
    """Afterwards nobody stands in line."""
    with Lockwork(url) as other, other.lock("x"), other.semaphore("x", permits=1):
        for place in range(1000):
            with suppress(KeyboardInterrupt, LockTimeout), interrupted_at(place, _ACQUIRE) as where:
                HANDLES[kind](lw, "x").acquire(wait=0.001)
            waiting = other.semaphore("x", permits=1).inspect().waiting + other.lock("x").inspect().waiters
            assert waiting == 0, where
            if not where:
                break
        assert place > 20


@pytest.mark.parametrize("kind", ["lock", "semaphore", "rwlock", "multilock"])
def test_a_release(url: str, admin: redis.Redis, kind: str) -> None:
    """Afterwards it is held by who can release it, or nobody renews it any more."""
    with Lockwork(url, lock_lease=1) as lw:
        for place in range(1000):
            grant = HANDLES[kind](lw, f"x{place}").acquire()
            with suppress(KeyboardInterrupt), interrupted_at(place, _RELEASE) as where:
                grant.release()
            if not where:
                break
            for held in (grant, *getattr(grant, "parts", ())):
                with suppress(NotHeld, LockLost):
                    held.release()
            assert not lw.runtime.holds, where
            assert not lw.runtime.live, where
        assert place > 10
        for number in range(place):
            until(lambda name=f"x{number}": not taken(lw, kind, name), f"x{number} is free", patience=5)  # type: ignore[misc]


def free(app: Lockwork, name: str) -> bool:
    grant = app.lock(name).try_acquire()
    if grant is not None:
        grant.release()
    return grant is not None


def test_a_sticky_turn(url: str, admin: redis.Redis) -> None:
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
                with interrupted_at(line, ("locks/sticky.py", "runtime/sticky_cache.py")) as where:
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
        assert line > 5
        for name, place in names.items():
            until(lambda name=name: free(other, name), f"{name} is free, interrupted at {place}")  # type: ignore[misc]


def test_the_engines_start(url: str, admin: redis.Redis) -> None:
    """The app that goes on after Ctrl-C, as in a notebook, has an engine, and can be closed."""
    for line in range(40):
        with Lockwork(url) as lw:
            lw.lock("warm").inspect()
            with suppress(KeyboardInterrupt), interrupted_at(line, ("runtime/engine.py",)) as where:
                lw.lock("x").acquire()
            grant = lw.lock("y").acquire()
            thread = lw.runtime.engine._thread
            assert thread is not None, where
            assert thread.is_alive(), f"no engine after an interruption at {where}"
            grant.release()
        if not where:
            return
