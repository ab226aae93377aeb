"""Servers of a quorum are killed, and come back with their data or without, while a lock is held and waited for."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from lockwork import LockLost, Lockwork, LockworkError, ServerUnavailable
from lockwork.locks.quorum import Quorum
from lockwork.locks.quorum_lock import QuorumGrant
from mortal_servers import MortalServer
from processes import until

Make = Callable[[str], Quorum]


@pytest.fixture
def three(tmp_path: Path) -> Iterator[list[MortalServer]]:
    with ExitStack() as stack:
        yield [stack.enter_context(MortalServer(tmp_path / f"s{number}")) for number in range(3)]


@pytest.fixture
def quorum(three: list[MortalServer]) -> Iterator[Make]:
    """Makes quorums with apps of their own, as in separate processes, for locks with a given lease."""
    with ExitStack() as stack:

        def make(lease: str) -> Quorum:
            apps = [stack.enter_context(Lockwork(server.url, lock_lease=lease)) for server in three]
            return stack.enter_context(Quorum(apps))

        yield make


def renewed(grant: QuorumGrant, beyond: float) -> None:
    """Wait until renewals of a majority have moved the deadline by more than `beyond` seconds."""
    before = grant.deadline
    until(lambda: grant.deadline > before + beyond, "renewed")


def waiting(pool: ThreadPoolExecutor, quorum: Quorum) -> Future[QuorumGrant]:
    return pool.submit(lambda: quorum.lock("x", wait=60).acquire())


def second_holder(three: list[MortalServer], quorum: Make, at: int, *, empty: bool) -> bool:
    """Hold the lock while a server is killed and restarted; return True if another client acquires it meanwhile."""
    with ThreadPoolExecutor(1) as pool:
        grant = quorum("2s").lock("x").acquire()
        next_one = waiting(pool, quorum("2s"))
        renewed(grant, 0.5)
        three[at].kill()
        renewed(grant, 2.5)  # beyond the killed server's lease
        three[at].start(empty=empty)
        renewed(grant, 2.5)
        assert not grant.lost
        found = next_one.done()
        grant.release()
        second = next_one.result(30)
        assert found or second.fence > grant.fence
        second.release()
    return found


@pytest.mark.parametrize(("at", "empty"), [(1, False), (0, True), (2, True)])
def test_lock_survives_a_killed_server(three: list[MortalServer], quorum: Make, at: int, *, empty: bool) -> None:
    """Two of three servers always have the lease, so a waiter gets no majority, with or without the third's data."""
    assert not second_holder(three, quorum, at, empty=empty)


def test_quorum_of_one_is_caught(three: list[MortalServer], quorum: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: one vote is enough."""
    monkeypatch.setattr("lockwork.protocol.locks.quorum.majority", lambda servers: 1)
    monkeypatch.setattr("lockwork.locks.quorum_lock.majority", lambda servers: 1)
    assert second_holder(three, quorum, 1, empty=True)


def test_lock_survives_restarts_of_all_servers_in_sequence(three: list[MortalServer], quorum: Make) -> None:
    """A server that restarts with its data, before the lease ends, still counts."""
    with ThreadPoolExecutor(1) as pool:
        grant = quorum("4s").lock("x").acquire()
        next_one = waiting(pool, quorum("4s"))
        for server in three:
            server.kill()
            server.start()
            renewed(grant, 0.1)
        assert not next_one.done(), "a second holder"
        grant.release()
        next_one.result(30).release()


def test_lock_is_lost_with_two_servers(three: list[MortalServer], quorum: Make) -> None:
    told = threading.Event()
    mine, other = quorum("1s"), quorum("1s")
    lock = mine.lock("x", on_lost=lambda _: told.set())
    with ThreadPoolExecutor(1) as pool:
        grant = lock.acquire()
        next_one = waiting(pool, other)
        for server in three[1:]:
            server.kill()
        until(lambda: grant.lost, "it is lost when the lease has ended")
        assert told.wait(30)
        with pytest.raises(LockLost):
            grant.check()
        with pytest.raises(LockLost):
            lock.release()
        with pytest.raises(ServerUnavailable, match="needs 2 of 3 servers, and 1 answered"):
            mine.lock("x", wait="300ms").acquire()
        assert not next_one.done()
        three[1].start()
        assert next_one.result(30).fence > grant.fence
        next_one.result().release()


async def test_body_is_cancelled_when_two_servers_are_lost(three: list[MortalServer]) -> None:
    apps = [Lockwork(server.url, lock_lease="1s") for server in three]
    async with Quorum(apps) as quorum:
        with pytest.raises(LockLost, match="was cancelled"):
            async with quorum.lock("x"):
                for server in three[:2]:
                    server.kill()
                await asyncio.sleep(30)
        with pytest.raises(ServerUnavailable):
            await quorum.lock("x", wait="300ms").aacquire()
        three[0].start(empty=True)
        async with quorum.lock("x", wait=30):
            pass
    for app in apps:
        await app.aclose()


def turns(
    three: list[MortalServer], quorum: Make, kills: int, names: tuple[str, ...] = ("x",) * 3
) -> tuple[int, list[int]]:
    """Let three clients take turns while servers are killed and restarted; return the overlaps and the fences."""
    inside: dict[int, QuorumGrant] = {}
    fences: list[int] = []
    overlaps = 0
    guard, stop = threading.Lock(), threading.Event()

    def player(mine: Quorum, name: str) -> None:
        nonlocal overlaps
        while not stop.is_set():
            with suppress(LockworkError), mine.lock(name, wait=5) as grant:
                for _ in range(5):
                    with guard:
                        if not grant.lost:
                            if grant.fence not in inside:
                                inside[grant.fence] = grant
                                fences.append(grant.fence)
                            overlaps += sum(not other.lost for other in inside.values() if other is not grant)
                    time.sleep(0.001)
                with guard:
                    inside.pop(grant.fence, None)

    with ThreadPoolExecutor(3) as pool:
        players = [pool.submit(player, quorum("1s"), name) for name in names]
        for number in range(kills):
            before = len(fences)
            server = three[number % 3]
            server.kill()
            until(lambda before=before: len(fences) > before + 3, "they take turns with two servers")  # type: ignore[misc]
            server.start()
            until(lambda before=before: len(fences) > before + 6, "they take turns with three")  # type: ignore[misc]
        stop.set()
        for one in players:
            one.result(30)
    return overlaps, fences


def test_holders_never_overlap_while_servers_are_killed(three: list[MortalServer], quorum: Make) -> None:
    overlaps, fences = turns(three, quorum, 3)
    assert overlaps == 0
    assert fences == sorted(set(fences))


def test_overlap_is_caught(three: list[MortalServer], quorum: Make) -> None:
    """The mutant: each client has another lock."""
    assert any(turns(three, quorum, 1, names=("x", "y", "z"))[0] for _ in range(10))
