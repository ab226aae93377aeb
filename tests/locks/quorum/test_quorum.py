"""A lock on a majority of real, independent servers. Some servers hang, lose their data, or refuse calls."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from lockwork import ConfigError, LockLost, LockTimeout, Lockwork, NotHeld, ServerUnavailable
from lockwork.locks import quorum_calls
from lockwork.locks.quorum import Quorum
from lockwork.protocol.locks.quorum import Pause, drift, majority, validity
from processes import until
from quorum_servers import Servers

Make = Callable[[], Quorum]


@pytest.fixture
def failed(monkeypatch: pytest.MonkeyPatch) -> list[Pause]:
    """Record the pauses after failed attempts, each at its maximum."""
    pauses: list[Pause] = []

    def longest(pause: Pause) -> float:
        pauses.append(pause)
        return pause.most

    monkeypatch.setattr(quorum_calls, "_some", longest)
    return pauses


def minority(servers: Servers) -> range:
    return range(len(servers.urls) - majority(len(servers.urls)))


def test_quorum_lock_excludes_and_its_fence_rises(quorum: Make) -> None:
    mine, other = quorum(), quorum()
    fences = []
    for holder, rival in ((mine, other), (other, mine), (mine, other)):
        with holder.lock("x") as grant:
            assert rival.lock("x").try_acquire() is None
            with pytest.raises(LockTimeout, match="majority"):
                rival.lock("x", wait="50ms").acquire()
            assert not grant.lost
            assert 0.98 * 15 - 1 < grant.remaining < 15
            fences.append(grant.fence)
    assert fences == sorted(set(fences))
    with pytest.raises(NotHeld):
        mine.lock("x").release()


def test_voting_servers_have_the_fence(quorum: Make, servers: Servers) -> None:
    with quorum().lock("x") as grant:
        assert {int(servers.fields(at)[b"f"]) for at in range(len(servers.urls))} == {grant.fence}


def test_hanging_minority_costs_little(quorum: Make, servers: Servers) -> None:
    """node-redlock #168, "unable to reach quorum": one server of three must not decide."""
    mine = quorum()
    with mine.lock("x") as first:
        pass
    for at in minority(servers):
        servers.stop(at)
    with mine.lock("x", wait=20) as grant:
        assert not grant.lost
        assert grant.fence > first.fence
        assert len(grant.votes) == majority(len(servers.urls))


def test_acquire_without_a_majority_fails(quorum: Make, servers: Servers) -> None:
    mine = quorum()
    down = range(majority(len(servers.urls)))
    for at in down:
        servers.stop(at)
    with pytest.raises(ServerUnavailable, match="servers, and"):
        mine.lock("x").acquire(wait=0)
    for at in down:
        servers.resume(at)
    with quorum().lock("x", wait=50):
        pass


def test_failed_acquire_is_undone_on_all_servers(quorum: Make, servers: Servers) -> None:
    """node-redlock #369: the leftovers of a failed attempt must not block its retry."""
    mine, other = quorum(), quorum()
    with other.lock("x"):
        assert mine.lock("x").try_acquire() is None
    assert servers.free()
    with mine.lock("x", wait=0):
        pass


def test_validity_counts_from_the_try_that_was_granted(quorum: Make, failed: list[Pause]) -> None:
    """node-redlock #169: the lease must not be counted from the first of many tries."""
    mine, other = quorum(), quorum()
    held = other.lock("x").acquire()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(mine.lock("x", lease="3s", wait=30).acquire)
        until(lambda: sum(pause.most for pause in failed[:-1]) > 0.5, "it has tried for a while")
        held.release()
        assert waiting.result(30).remaining > 2.5


def test_drift_is_taken_off() -> None:
    """redlock-py once added the drift."""
    assert validity([10.0, 20.0, 30.0], 3, 10_000) == 20.0 - drift(10_000)
    assert drift(10_000) == pytest.approx(0.102)
    assert validity([10.0], 3, 10_000) == float("-inf")


def test_acquiring_a_held_object_again_keeps_its_token(quorum: Make, servers: Servers) -> None:
    """pottery overwrites the token before its attempt, and can never release the lock."""
    mine = quorum()
    lock = mine.lock("x", wait=0)
    outer = lock.acquire()
    assert lock.acquire() is outer
    lock.release()
    assert not outer.lost
    lock.release()
    assert servers.free()


def test_lease_can_be_extended_repeatedly(quorum: Make) -> None:
    """pottery allows three extensions at most."""
    with quorum().lock("x", lease="5s") as grant:
        for _ in range(5):
            grant.extend("1m")
        assert grant.remaining > 55


def test_renewed_lock_outlives_its_lease(url: str, quorum: Make, servers: Servers) -> None:
    """redlock-py #30, pottery #371: the lock is renewed automatically, even if a minority loses its data."""
    apps = [Lockwork(one, lock_lease="2s") for one in servers.urls]
    with Quorum(apps) as mine:
        with mine.lock("x") as grant:
            for at in minority(servers):
                servers.empty(at)
            first = [vote.deadline for vote in grant.votes.values()]
            until(
                lambda: (
                    sum(now.deadline > then + 2 for now, then in zip(grant.votes.values(), first, strict=True))
                    >= majority(len(servers.urls))
                ),
                "renewed past its first lease",
            )
            assert not grant.lost
    for app in apps:
        app.close()


def test_lost_with_the_majority(quorum: Make, servers: Servers) -> None:
    told = threading.Event()
    lock = quorum().lock("x", lease="5s", on_lost=lambda _: told.set())
    grant = lock.acquire()
    for at in range(majority(len(servers.urls))):
        servers.empty(at)
    with pytest.raises(LockLost):
        grant.extend()
    assert grant.lost, "at once: a majority has said so"
    assert told.wait(30)
    with pytest.raises(LockLost):
        lock.release()


def test_server_that_returns_empty_breaks_exclusion(quorum: Make, servers: Servers) -> None:
    """Limit of Redlock: only a late return of the server, or persistent data, prevents this. The fence helps."""
    mine, other = quorum(), quorum()
    down = minority(servers)
    for at in down:
        servers.stop(at)
    first = mine.lock("x").acquire()
    for at in down:
        servers.resume(at)
    servers.empty(len(servers.urls) - 1)  # one of the granting servers
    second = other.lock("x", wait=20).acquire()
    assert not first.lost, "two holders"
    assert second.fence > first.fence, "a store that checks the fence refuses the first"
    second.release()


async def test_asyncio(servers: Servers, failed: list[Pause]) -> None:
    apps = [Lockwork(url) for url in servers.urls]
    others = [Lockwork(url) for url in servers.urls]
    async with Quorum(apps) as mine, Quorum(others) as other:
        async with mine.lock("x") as grant:
            assert await other.lock("x").atry_acquire() is None
            await grant.aextend("1m")
            task = asyncio.create_task(other.lock("x").aacquire())
            while not failed:
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        async with other.lock("x", wait=20):
            pass
        with pytest.raises(LockLost, match="was cancelled"):
            async with mine.lock("x", lease="1s"):
                await asyncio.sleep(30)
    for app in apps + others:
        await app.aclose()


def test_bad_input(lw: Lockwork, five: list[str]) -> None:
    for wrong in ([], [lw], [lw, lw, lw], five[:2], five[:4], five[0], [five[0], five[0], five[1]]):
        with pytest.raises(ConfigError):
            lw.quorum(wrong)
    with lw.quorum(five[:3]) as made, made.lock("x") as grant:
        assert not grant.lost


def test_quorum_lock_is_a_decorator(quorum: Make) -> None:
    mine = quorum()

    @mine.lock("x")
    def held() -> bool:
        return mine.lock("x").held()

    assert held()
    assert not mine.lock("x").held()
