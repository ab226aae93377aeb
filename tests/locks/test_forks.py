"""Forks of a process that holds locks: the child holds none of its parent's locks and cannot release them."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from forking import in_a_child
from lockwork import Grant, LockLost, Lockwork, NotHeld
from processes import until


def test_forked_child_does_not_hold_its_parents_lock(lw: Lockwork) -> None:
    lock = lw.lock("x")

    def check() -> str:
        with pytest.raises(NotHeld):
            lock.release()
        assert not lock.held()
        assert lock.try_acquire() is None
        with lw.lock("another") as other:
            assert not other.lost
        return "all well"

    with lock as grant:
        assert in_a_child(check) == "all well"
        assert not grant.lost
        assert lock.inspect().fence == grant.fence
        with lw.lock("another", wait=0):
            pass


@pytest.mark.parametrize("sticky", [False, True], ids=["plain", "sticky"])
def test_forked_child_cannot_end_an_inherited_grant(lw: Lockwork, sticky: bool) -> None:
    """osparc, Artemis #2632 and others: a fork inside the block ran the parent's clean-up a second time."""
    lock = lw.lock("x", sticky=sticky)
    for what in ("release", "extend", "__exit__"):
        grant = lock.acquire()

        def end(grant: Grant = grant, what: str = what) -> str:
            call = getattr(grant, what)
            try:
                call(None, None, None) if what == "__exit__" else call()
            except (NotHeld, LockLost) as error:
                return type(error).__name__
            return "did it"

        outcome = in_a_child(end)
        assert not grant.lost
        state = lock.inspect()
        assert (state.fence, state.owner is None) == (grant.fence, False), f"{what} in a child: {outcome}"
        # the end of a body whose own lock is not lost raises nothing
        expected = ("NotHeld", "LockLost", "did it") if what == "__exit__" else ("NotHeld", "LockLost")
        assert outcome in expected, f"{what} in a child: {outcome}"
        lock.release()


def test_in_a_forked_child_the_grant_counts_as_lost(lw: Lockwork) -> None:
    with lw.lock("x") as grant:
        assert in_a_child(lambda: (grant.lost, grant.remaining, lw.lock("x").held())) == "(True, 0.0, False)"
        assert not grant.lost


def test_forked_child_does_not_renew_its_parents_lock(url: str, admin: redis.Redis) -> None:
    with Lockwork(url, lock_lease=1) as lw:
        grant = lw.lock("x").acquire()
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            # the child's own engine starts, and renews only the child's leases
            try:
                lw.lock("mine").acquire()
                os.write(writer, b"running")
                threading.Event().wait(20)
            finally:
                os._exit(0)
        try:
            assert os.read(reader, 100) == b"running"
            lw.close()  # ends the parent's renewals
            with Lockwork(url) as other, other.lock("x", wait=5) as next_one:
                assert next_one.fence > grant.fence
                assert other.lock("mine").locked()
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(reader)
            os.close(writer)


def test_forked_child_has_no_waiter_of_its_parents_thread(lw: Lockwork) -> None:
    with ThreadPoolExecutor(1) as pool:
        with lw.lock("x") as grant:
            waiting = pool.submit(lambda: lw.lock("x", wait=30).acquire())
            until(lambda: lw.lock("x").inspect().waiters == 1, "it waits")
            outcome = in_a_child(lambda: (lw.lock("x").held(), lw.lock("x").inspect().waiters))
            assert outcome == "(False, 1)"
        second = waiting.result()
        assert second.fence > grant.fence
        second.release()


async def test_fork_in_a_running_loop_keeps_the_parents_connection(alw: Lockwork) -> None:
    async with alw.lock("x") as grant:
        child = os.fork()
        if child == 0:
            os._exit(0)
        await asyncio.to_thread(os.waitpid, child, 0)
        assert (await alw.lock("x").ainspect()).fence == grant.fence


def test_forked_child_keeps_no_sticky_lock(lw: Lockwork) -> None:
    lock = lw.lock("x", sticky=True)
    with lock as grant:
        pass

    def take() -> str:
        assert not lw.runtime.sticky_cache.idle
        # the parent keeps the lock and releases it on request; the child cannot release it for the parent
        mine = lock.acquire(wait=20)
        lock.release()
        lw.close()
        return "fence rose" if mine.fence > grant.fence else "the parent's fence"

    assert in_a_child(take) == "fence rose"
    with lock as again:
        assert again.fence > grant.fence


def test_forked_child_cannot_end_any_kind_of_grant(lw: Lockwork) -> None:
    """For every kind of grant, a release in the child does not end the parent's grant."""
    grants: list[Grant] = [
        lw.multilock("a", "b").acquire(),
        lw.rwlock("doc").write().acquire(),
        lw.semaphore("gpu", 2).acquire(),
        lw.queue("mail").lock("k").acquire(),
    ]

    def end(grant: Grant) -> str:
        assert grant.lost
        try:
            grant.release()
        except (NotHeld, LockLost):
            return "nothing"
        return "did it"

    for grant in grants:
        assert in_a_child(lambda grant=grant: end(grant)) == "nothing"  # type: ignore[misc]
        assert not grant.lost
        grant.release()


def test_forked_child_does_not_end_its_parents_run_of_once(lw: Lockwork) -> None:
    """A child that continues from the fork reaches the end of the same run."""
    report = lw.once("report", every="1h")
    reader, writer = os.pipe()
    parent = os.getpid()

    def make() -> str:
        child = os.fork()
        if child:
            assert os.read(reader, 1) == b"."
            os.waitpid(child, 0)
            assert lw.once("report", every="1h").inspect().state == "running"
        return "parent" if child else "child"

    try:
        outcome = report.run(make)
    finally:
        if os.getpid() != parent:
            os.write(writer, b".")
            os._exit(0)
    os.close(reader)
    os.close(writer)
    assert outcome == "parent"
    assert report.run(lambda: "nobody") == "parent"


def test_forked_child_does_not_lead(lw: Lockwork) -> None:
    with lw.election("scheduler") as election:
        assert election.wait(20)
        assert in_a_child(lambda: (election.leader, election.fence)) == "(False, None)"
        assert election.leader
