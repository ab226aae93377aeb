"""Forks of a process that holds a quorum's locks: the child holds no locks, and cannot touch its parent's locks."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from forking import in_a_child
from lockwork import LockLost, NotHeld
from lockwork.locks.quorum import Quorum
from quorum_servers import Servers


def test_forked_child_does_not_hold_its_parents_lock(servers: Servers, quorum: Callable[[], Quorum]) -> None:
    lock = quorum().lock("x")

    def look() -> str:
        assert not lock.held()
        assert lock.try_acquire() is None
        with pytest.raises(NotHeld):
            lock.release()
        return "all well"

    grant = lock.acquire()
    assert in_a_child(look) == "all well"
    assert not grant.lost
    assert lock.acquire() is grant, "the parent holds it still"
    assert not servers.free()
    lock.release()
    lock.release()
    assert servers.free()


@pytest.mark.parametrize("what", ["release", "extend", "__exit__"])
def test_forked_child_cannot_end_an_inherited_grant(servers: Servers, quorum: Callable[[], Quorum], what: str) -> None:
    grant = quorum().lock("x").acquire()

    def end() -> str:
        assert grant.lost
        assert grant.remaining == 0
        call = getattr(grant, what)
        try:
            call(None, None, None) if what == "__exit__" else call()
        except (NotHeld, LockLost) as error:
            return type(error).__name__
        return "did it"

    said = in_a_child(end)
    assert said in ("NotHeld", "LockLost", "did it" if what == "__exit__" else "NotHeld")
    assert not grant.lost
    assert not servers.free()
    grant.release()
    assert servers.free()


def test_forked_child_acquires_after_its_parents_release(servers: Servers, quorum: Callable[[], Quorum]) -> None:
    lock = quorum().lock("x", wait=20)
    first = lock.acquire()
    first.release()

    def take() -> str:
        with lock as mine:
            return "fence rose" if mine.fence > first.fence else "the parent's fence"

    assert in_a_child(take) == "fence rose"


def test_fork_while_other_threads_use_the_quorum_does_not_block(quorum: Callable[[], Quorum]) -> None:
    """The child does not wait for an internal lock that another thread holds at the fork."""
    made, stop = quorum(), threading.Event()

    def use() -> None:
        while not stop.is_set():
            grant = made.lock("busy").try_acquire()
            if grant is not None:
                grant.release()

    threads = [threading.Thread(target=use) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for number in range(10):
            mine = made.lock(f"mine-{number}", wait=20)
            assert in_a_child(lambda mine=mine: mine.acquire().lost) == "False"  # type: ignore[misc]
    finally:
        stop.set()
        for thread in threads:
            thread.join()
