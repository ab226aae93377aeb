"""Server outages: the leader steps down when its lease ends, and a candidate leads when the server is back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from lockwork import Grant, Lockwork
from lockwork.locks.election import Election
from mortal_servers import MortalServer
from processes import until


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[MortalServer]:
    with MortalServer(tmp_path / "server") as server:
        yield server


class Diary:
    """Records an election's callbacks: the fences, and whether the grant was over at the call of on_loss."""

    def __init__(self) -> None:
        self.gains: list[int] = []
        self.losses: list[tuple[int, bool]] = []

    def gain(self, grant: Grant) -> None:
        self.gains.append(grant.fence)

    def lose(self, grant: Grant) -> None:
        self.losses.append((grant.fence, grant.lost))


@pytest.mark.parametrize("empty", [False, True], ids=["with its data", "empty"])
def test_leader_steps_down_and_another_leads(mortal: MortalServer, *, empty: bool) -> None:
    diaries = [Diary(), Diary()]
    with ExitStack() as stack:
        elections: list[Election] = []
        for diary in diaries:
            app = stack.enter_context(Lockwork(mortal.url, lock_lease="1s"))
            election = app.election("x", on_gain=diary.gain, on_loss=diary.lose)
            elections.append(stack.enter_context(election))
            if len(elections) == 1:
                assert election.wait(30)
        first, first_fence = diaries[0], diaries[0].gains[0]
        mortal.kill()
        until(lambda: not elections[0].leader, "it does not take itself for the leader any more")
        until(lambda: first.losses, "it is told")
        assert first.losses == [(first_fence, True)], "not before its lease has ended"
        assert not elections[1].leader
        mortal.start(empty=empty)
        leader = until(lambda: next((one for one in elections if one.leader), None), "somebody leads again")
        assert leader is not None
        assert leader.fence is not None
        assert leader.fence > first_fence
        assert leader.resign()
        until(lambda: any(one.leader for one in elections), "and somebody follows")
    for diary in diaries:
        assert [fence for fence, _ in diary.losses] == diary.gains


def test_short_outage_keeps_the_leader(mortal: MortalServer) -> None:
    """The server is back with its data before the lease ends: the leader continues without a callback."""
    diary = Diary()
    with Lockwork(mortal.url, lock_lease="20s") as lw, Lockwork(mortal.url, lock_lease="20s") as other:
        with lw.election("x", on_gain=diary.gain, on_loss=diary.lose) as election:
            assert election.wait(30)
            with other.election("x") as rival:
                mortal.kill()
                mortal.start()
                until(lambda: lw.lock("election:x").inspect().waiters == 1, "the rival stands")
                assert lw.lock("election:x").inspect().fence == election.fence == diary.gains[0]
                assert not rival.leader
                assert not diary.losses
        assert [fence for fence, _ in diary.losses] == diary.gains


async def test_async_leader_steps_down_in_an_outage(mortal: MortalServer) -> None:
    diary = Diary()
    async with (
        Lockwork(mortal.url, lock_lease="1s") as lw,
        lw.election("x", on_gain=diary.gain, on_loss=diary.lose) as election,
    ):
        assert await election.await_(30)
        await asyncio.to_thread(mortal.kill)
        while not diary.losses:
            await asyncio.sleep(0.005)
        assert not election.leader
        await asyncio.to_thread(mortal.start)
        assert await election.await_(30)
        assert diary.gains == sorted(set(diary.gains))
        assert len(diary.gains) == 2
    assert [fence for fence, _ in diary.losses] == diary.gains


def test_election_can_be_stopped_during_an_outage(mortal: MortalServer) -> None:
    diary = Diary()
    with Lockwork(mortal.url, patience="200ms") as lw, Lockwork(mortal.url, patience="200ms") as other:
        with lw.election("x", on_gain=diary.gain, on_loss=diary.lose) as election:
            assert election.wait(30)
            with other.election("x") as rival:
                mortal.kill()
        assert [fence for fence, _ in diary.losses] == diary.gains
        assert not election.leader
        assert not rival.leader
