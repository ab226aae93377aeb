"""Cancellation at any turn of the loop while waiting for a latch, a barrier, a limiter or a once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
import redis

from cancelling import auntil, nothing_here, swept, turns
from lockwork import Lockwork
from lockwork.protocol.synchronizers.limiter import Algorithm
from lockwork.synchronizers import once
from lockwork.synchronizers.barrier import Barrier


@pytest.fixture
async def rival(url: str, admin: redis.Redis) -> AsyncIterator[Lockwork]:
    """Another app, as another process would be."""
    async with Lockwork(url) as app:
        yield app


async def test_cancelled_latch_wait_leaves_nothing(alw: Lockwork, rival: Lockwork) -> None:
    """The process's place on the server expires later; until then the process ignores messages for it."""
    boot = alw.latch("boot", 1)
    await boot.ainspect()

    async def clean(where: str) -> None:
        nothing_here(alw, where)
        assert (await rival.latch("boot", 1).ainspect()).left == 1, where

    assert (await swept(boot.await_, clean, most=30)).ended == 30


async def test_latch_wait_cancelled_during_the_opening_leaves_nothing(
    alw: Lockwork, rival: Lockwork, admin: redis.Redis
) -> None:
    boot, other = alw.latch("boot", 1), rival.latch("boot", 1)

    async def opened() -> None:
        await auntil(partial(_waits, alw), "it waits")
        await other.acount_down()

    async def clean(where: str) -> None:
        nothing_here(alw, where)
        await other.areset()

    await other.areset()
    sweep = await swept(boot.await_, clean, ready=opened, most=400)
    assert sweep.finished


async def test_cancelled_count_down_counts_at_most_once(alw: Lockwork) -> None:
    boot = alw.latch("boot", 1000)
    left = (await boot.ainspect()).left

    async def clean(where: str) -> None:
        nonlocal left
        now = (await boot.ainspect()).left  # behind the call on the same connection
        assert now in (left, left - 1), where
        left = now
        nothing_here(alw, where)

    assert (await swept(boot.acount_down, clean)).ended > 1


async def test_cancelled_barrier_wait_does_not_count(alw: Lockwork, rival: Lockwork) -> None:
    phase = alw.barrier("phase", 2)
    await phase.ainspect()

    async def clean(where: str) -> None:
        assert (await rival.barrier("phase", 2).ainspect()).arrived == 0, where
        nothing_here(alw, where)

    assert (await swept(phase.await_, clean, most=30)).ended == 30


async def test_barrier_wait_cancelled_during_the_opening_passes_with_its_partner_or_not(
    alw: Lockwork, rival: Lockwork
) -> None:
    phase, other = alw.barrier("phase", 2), rival.barrier("phase", 2)
    partners: list[asyncio.Task[int]] = []

    async def opens() -> None:
        await auntil(phase.ainspect, "it has come")
        partners.append(asyncio.create_task(other.await_()))

    async def clean(where: str) -> None:
        partner = partners.pop()
        await auntil(partial(_settled, partner, other), f"{where}: both have passed, or one is here")
        partner.cancel()
        await asyncio.gather(partner, return_exceptions=True)
        assert (await other.ainspect()).arrived == 0, where
        nothing_here(alw, where)
        nothing_here(rival, where)

    sweep = await swept(phase.await_, clean, ready=opens, most=400)
    assert sweep.ended
    assert sweep.finished


async def _settled(partner: asyncio.Task[int], other: Barrier) -> bool:
    return partner.done() or (await other.ainspect()).arrived == 1


async def _waits(app: Lockwork) -> bool:
    return bool(app.runtime.engine._mail._boxes)


@pytest.mark.parametrize("algorithm", ["bucket", "window"])
async def test_cancelled_limiter_wait_returns_its_units(
    alw: Lockwork, rival: Lockwork, admin: redis.Redis, algorithm: Algorithm
) -> None:
    api = alw.limiter("api", "2/h", algorithm=algorithm)
    await api.aacquire(2)
    full, booked = (await api.ainspect()).full_in, admin.zcard("lw:{limiter:api}:log")

    async def clean(where: str) -> None:
        status = await rival.limiter("api", "2/h", algorithm=algorithm).ainspect()
        assert status.full_in <= full, where
        assert admin.zcard("lw:{limiter:api}:log") <= booked, where
        nothing_here(alw, where)

    assert (await swept(lambda: api.aacquire(wait="2h"), clean, most=40)).ended == 40


async def test_cancelled_once_run_is_done_lost_or_idle(alw: Lockwork, rival: Lockwork) -> None:
    """A finished run counts, an interrupted run is lost, and no run stays in the state "running"."""
    seen: set[str] = set()
    number = 0

    async def make() -> str:
        await turns(30)  # so that some cancellations come during the run, even with a fast server
        return "made"

    async def run() -> None:
        assert await alw.once(f"report{number}").arun(make) == "made"

    async def clean(where: str) -> None:
        nonlocal number
        state = (await rival.once(f"report{number}").ainspect()).state
        assert state in ("idle", "lost", "done"), where
        seen.add(state)
        assert not once._running, where
        nothing_here(alw, where)
        if state == "idle":
            assert await rival.once(f"report{number}").arun(make) == "made", where
        number += 1

    await alw.once("warm").ainspect()
    sweep = await swept(run, clean)
    assert sweep.ended > 4
    assert seen == {"idle", "lost", "done"}


async def test_cancelled_once_wait_does_not_affect_the_run(alw: Lockwork, rival: Lockwork, admin: redis.Redis) -> None:
    go, began = asyncio.Event(), asyncio.Event()

    async def make() -> str:
        began.set()
        await go.wait()
        return "made"

    runner = asyncio.create_task(rival.once("report").arun(make), name="lockwork-test-runner")
    await began.wait()

    async def clean(where: str) -> None:
        fields: Any = admin.hkeys("lw:{once:report}")
        # one place per process, deleted when the run ends
        assert {field for field in fields if field.startswith(b"w")} <= {b"w" + alw.runtime.channel.encode()}, where
        assert (await rival.once("report").ainspect()).state == "running", where
        nothing_here(alw, where)

    report = alw.once("report")
    await report.ainspect()
    assert (await swept(lambda: report.arun(make), clean, most=40)).ended == 40
    go.set()
    assert await runner == "made"


async def test_cancelled_once_waiter_may_take_over_an_interrupted_run(alw: Lockwork, rival: Lockwork) -> None:
    """After the runner's interruption, the waiter runs the function, or its cancellation leaves it to others."""
    number = 0
    runners: list[asyncio.Task[None]] = []

    async def endless() -> None:
        await asyncio.Event().wait()

    async def make() -> None:
        await asyncio.sleep(0)

    async def wait() -> None:
        await alw.once(f"report{number}", again_if_lost=True).arun(make)

    async def interrupted() -> None:
        await auntil(partial(_waits, alw), "it waits")
        runners[-1].cancel()

    async def clean(where: str) -> None:
        nonlocal number
        await asyncio.gather(runners.pop(), return_exceptions=True)
        assert (await rival.once(f"report{number}").ainspect()).state in ("lost", "done", "idle"), where
        assert not once._running, where
        nothing_here(alw, where)
        number += 1
        await begin()

    async def begin() -> None:
        runner = asyncio.create_task(rival.once(f"report{number}").arun(endless), name="lockwork-test-runner")
        runners.append(runner)
        await auntil(partial(_running, rival, f"report{number}"), "it runs")

    await begin()
    sweep = await swept(wait, clean, ready=interrupted, most=400)
    runners[-1].cancel()
    await asyncio.gather(*runners, return_exceptions=True)
    assert sweep.ended > 2
    assert sweep.finished


async def _running(app: Lockwork, name: str) -> bool:
    return (await app.once(name).ainspect()).state == "running"
