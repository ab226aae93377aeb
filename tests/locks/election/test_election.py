"""One leader at a time: through resignations, failing callbacks, lost leases and killed processes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis

from history import History
from lockwork import ConfigError, Grant, Lockwork
from lockwork.protocol import keys
from processes import script, until
from sleeping import hears

KEY = keys.lock("lw", "election:x")


def test_leader_resigns_and_the_next_candidate_leads(url: str, lw: Lockwork) -> None:
    events: list[str] = []
    mine = lw.election(
        "x", on_gain=lambda _: events.append("gain"), on_loss=lambda _: events.append("loss"), tags=["b"]
    )
    with Lockwork(url) as rival, mine as first:
        assert first.wait(30)
        assert first.leader
        assert first.fence
        seen = first.inspect()
        assert seen.leader is not None
        assert (seen.leader.pid, seen.leader.tags) == (os.getpid(), ("b",))
        assert (seen.fence, seen.candidates) == (first.fence, 0)
        assert 0 < seen.expires_in <= 15
        with rival.election("x") as second:
            until(lambda: rival.lock("election:x").inspect().waiters == 1, "the second stands in line")
            hears(url, rival, "lock:election:x")  # without its subscription, the first would lead again
            assert second.inspect().candidates == 1
            assert (second.leader, second.fence) == (False, None)
            assert not second.wait(0)
            fence = first.fence
            assert first.resign()
            assert second.wait(30)
            assert second.fence is not None
            assert fence is not None
            assert second.fence > fence
            until(lambda: rival.lock("election:x").inspect().waiters == 1, "the first stands again")
            assert events == ["gain", "loss"]
        assert first.wait(30)
    assert events == ["gain", "loss", "gain", "loss"]
    assert lw.election("x").inspect().leader is None
    assert not first.leader


async def test_asyncio(url: str, alw: Lockwork) -> None:
    events: list[str] = []

    async def gain(grant: Grant) -> None:
        await asyncio.sleep(0)
        events.append("gain")

    async with (
        Lockwork(url) as rival,
        alw.election("x", on_gain=gain, on_loss=lambda _: events.append("loss")) as first,
    ):
        assert await first.await_(30)
        async with rival.election("x") as second:
            while not (await rival.lock("election:x").ainspect()).waiters:
                await asyncio.sleep(0)
            assert await first.aresign()
            assert await second.await_(30)
            assert not first.leader
            assert (await first.ainspect()).leader is not None
        assert await first.await_(30)
    assert events == ["gain", "loss", "gain", "loss"]


def test_candidate_is_notified_of_lost_lease_and_campaigns_again(lw: Lockwork, admin: redis.Redis) -> None:
    lost = threading.Event()
    with lw.election("x", on_loss=lambda _: lost.set()) as election:
        assert election.wait(30)
        before = election.fence
        assert lw.lock("election:x").force_release()
        assert lost.wait(30)
        until(lambda: election.fence not in (None, before), "it leads again")


def test_failing_callback_resigns_the_leadership(url: str, lw: Lockwork, caplog: pytest.LogCaptureFixture) -> None:
    failed = threading.Event()

    def fail(_: Grant) -> None:
        failed.set()
        raise ValueError("cannot lead")

    with Lockwork(url) as rival, lw.election("x", on_gain=fail):
        assert failed.wait(30), "it leads before the other one comes"
        with rival.election("x") as able:
            assert able.wait(30)
    assert "a callback of election 'x' failed" in caplog.text


@pytest.mark.filterwarnings("ignore:Exception in thread lockwork-election")  # the sys.exit() of this test
@pytest.mark.parametrize("when", ["on_gain", "on_loss"])
def test_callback_that_ends_its_thread_resigns_the_leadership(url: str, lw: Lockwork, when: str) -> None:
    """sys.exit() in a thread ends that thread only."""
    with Lockwork(url) as rival:
        ends = {when: lambda _: sys.exit("no more")}
        with lw.election("x", on_gain=ends.get("on_gain"), on_loss=ends.get("on_loss")) as election:
            if when == "on_loss":
                assert election.wait(30)
                election.resign()
            with rival.election("x") as able:
                assert able.wait(30)
                assert not election.leader


async def test_cancelled_while_it_steps_down_it_gives_the_leadership_up(url: str, alw: Lockwork) -> None:
    """asyncio.run cancels the remaining tasks in this way when it ends."""
    stepping_down = asyncio.Event()

    async def lose(_: Grant) -> None:
        stepping_down.set()
        await asyncio.Event().wait()

    async with Lockwork(url) as rival:
        election = await alw.election("x", on_loss=lose).__aenter__()
        assert await election.await_(30)
        (task,) = [task for task in asyncio.all_tasks() if task.get_name() == "election-x"]
        resigning = asyncio.create_task(election.aresign())
        await stepping_down.wait()
        task.cancel()
        assert await resigning
        async with rival.election("x") as able:
            assert await able.await_(30)


def test_waiting_candidate_stops(url: str, lw: Lockwork) -> None:
    with Lockwork(url) as rival, rival.lock("election:x"):
        with lw.election("x"):
            until(lambda: rival.lock("election:x").inspect().waiters == 1, "it stands in line")
        assert rival.lock("election:x").inspect().waiters == 0


async def test_waiting_async_candidate_stops(url: str, alw: Lockwork) -> None:
    async with Lockwork(url) as rival, rival.lock("election:x"):
        async with alw.election("x"):
            while not (await rival.lock("election:x").ainspect()).waiters:
                await asyncio.sleep(0)
        assert (await rival.lock("election:x").ainspect()).waiters == 0


def test_misuse(lw: Lockwork) -> None:
    async def gain(_: Grant) -> None:
        return None

    with pytest.raises(ConfigError, match="async with"):
        lw.election("x", on_gain=gain).__enter__()
    with pytest.raises(ConfigError, match="has not started"):
        lw.election("x").resign()
    with lw.election("x") as election, pytest.raises(ConfigError, match="already running"):
        election.__enter__()


CANDIDATE = """
import json, os, sys, time
from lockwork import Lockwork

def note(event, grant):
    line = {"event": event, "pid": os.getpid(), "fence": grant.fence, "at": time.clock_gettime(time.CLOCK_BOOTTIME)}
    with open(sys.argv[1], "ab", buffering=0) as file:
        file.write(json.dumps(line).encode() + b"\\n")

lw = Lockwork(lock_lease="1s")
with lw.election("x", on_gain=lambda g: note("gain", g), on_loss=lambda g: note("loss", g)):
    print("ready", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_killed_or_stopped_leader_is_replaced(
    url: str, admin: redis.Redis, tmp_path: Path, number: signal.Signals
) -> None:
    """Three real processes: kill each new leader, or stop it beyond its lease and continue it."""
    history = History(tmp_path / "history")
    with ExitStack() as stack:
        candidates = [stack.enter_context(script(CANDIDATE, history.path, url=url)) for _ in range(3)]
        for candidate in candidates:
            assert candidate.line() == "ready"
        by_pid = {candidate.pid: candidate for candidate in candidates}
        for turn in range(1, 3):
            leader = history.wait(turn, "gain")[turn - 1]["pid"]
            by_pid[leader].send(number)
            history.wait(turn + 1, "gain")
            if number == signal.SIGSTOP:
                by_pid[leader].send(signal.SIGCONT)
                until(lambda pid=leader: any(e["pid"] == pid for e in history.lines("loss")), "it was told")  # type: ignore[misc]
        gains = history.lines("gain")
        assert [gain["fence"] for gain in gains] == sorted({gain["fence"] for gain in gains})
        assert len({gain["pid"] for gain in gains[:2]}) == 2


def test_election_name_must_be_text(lw: Lockwork) -> None:
    with pytest.raises(ConfigError, match="an election's name must be text, not 5"):
        lw.election(5)  # type: ignore[arg-type]
