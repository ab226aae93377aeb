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


# an interrupted connection attempt loses its socket, and the garbage collector closes it
pytestmark = pytest.mark.filterwarnings("ignore:.*<socket.socket", "ignore:unclosed <socket:ResourceWarning")


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    yield
    gc.collect()


_ACQUIRE = (
    "protocol/locks/grants.py",
    "protocol/locks/multilock.py",
    "runtime/drive.py",
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
    with lock as grant, script(WAITS, url=url) as waiter:
        assert waiter.line() == "begins"
        until(lambda: lock.inspect().waiters == 1, "it waits")
        waiter.send(signal.SIGINT)
        assert waiter.line() == "interrupted"
        assert waiter.wait() == 0
        state = lock.inspect()
        assert (state.waiters, state.fence) == (0, grant.fence)
    assert not lock.locked()


def test_ctrl_c_just_when_the_lock_is_handed_over(lw: Lockwork, url: str) -> None:
    """The waiter either reports the lock or frees it."""
    lock = lw.lock("x")
    for pause in (0.0, 0.001, 0.002, 0.004):
        lock.acquire()
        with script(WAITS, url=url) as waiter:
            assert waiter.line() == "begins"
            until(lambda: lock.inspect().waiters == 1, "it waits")
            lock.release()
            time.sleep(pause)
            waiter.send(signal.SIGINT)
            assert waiter.line() in ("interrupted", "has it")
            waiter.wait()
            # the signal may have interrupted the holder's release: then its lock ends with the lease
            with lw.lock("x", wait=30):
                pass


@pytest.mark.parametrize("kind", HANDLES)
def test_interrupted_acquire_leaves_the_lock_free(url: str, admin: redis.Redis, kind: str) -> None:
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


def test_interrupted_adoption_leaves_the_lock_free_or_adoptable(url: str, admin: redis.Redis) -> None:
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
def test_interrupted_wait_leaves_no_waiter(lw: Lockwork, url: str, kind: str) -> None:
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
def test_interrupted_release_can_be_repeated_or_the_lease_ends(url: str, admin: redis.Redis, kind: str) -> None:
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


def test_interrupted_sticky_acquire_or_release_leaves_no_renewed_lock(url: str, admin: redis.Redis) -> None:
    """A lock that left the process's cache without an owner would be renewed forever."""
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
                # the app continues, and its error handling releases the locks that it holds
                with suppress(NotHeld, LockLost):
                    lw.lock(name).release_all()
            if not where:
                break
            line += 1
            assert line < 200
        assert line > 5
        for name, place in names.items():
            until(lambda name=name: free(other, name), f"{name} is free, interrupted at {place}")  # type: ignore[misc]


def test_app_has_an_engine_after_an_interrupted_start(url: str, admin: redis.Redis) -> None:
    """After Ctrl-C in a notebook, the app must work and close."""
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
