"""A reusable barrier: no party passes before the last one arrives."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis

from cancelling import cancelled, turns
from indexed import keys_but_indexes
from lockwork import Lockwork
from lockwork.errors import ConfigError, ServerRefused, WaitTimeout
from lockwork.protocol.keys import barrier as barrier_keys
from lockwork.protocol.scripts import script
from lockwork.types import BarrierStatus
from processes import until
from proxy import Phase, Proxy

phases = pytest.mark.parametrize("phase", ["request", "reply"])


def test_parties_pass_together_in_each_generation(lw: Lockwork) -> None:
    phase = lw.barrier("phase", 4)
    here = [0] * 5
    counting = threading.Lock()

    def party(_: int) -> list[int]:
        indexes = []
        for turn in range(5):
            with counting:
                here[turn] += 1
            indexes.append(phase.wait(30))
            assert here[turn] == 4, "no party passes before the last arrives"
        return indexes

    with ThreadPoolExecutor(4) as pool:
        passed = list(pool.map(party, range(4)))
    assert all(sorted(turn) == [0, 1, 2, 3] for turn in zip(*passed, strict=True))
    assert phase.inspect() == BarrierStatus(arrived=0, parties=4, generation=5)


async def test_asyncio_parties_pass_together_in_each_generation(alw: Lockwork) -> None:
    phase = alw.barrier("phase", 50)
    for _ in range(3):
        assert sorted(await asyncio.gather(*(phase.await_() for _ in range(50)))) == list(range(50))
    # surplus parties are the next generation's
    waits = [asyncio.create_task(phase.await_(30)) for _ in range(80)]
    while sum(wait.done() for wait in waits) < 50 or (await phase.ainspect()).arrived < 30:
        await asyncio.sleep(0)
    assert sorted(await asyncio.gather(*(phase.await_() for _ in range(20)), *waits)) == sorted([*range(50)] * 2)


def test_index_is_the_order_of_arrival(lw: Lockwork) -> None:
    phase = lw.barrier("phase", 3)
    with ThreadPoolExecutor(3) as pool:
        waits = []
        for number in range(3):
            waits.append(pool.submit(phase.wait, 30))
            until(lambda number=number: waits[number].done() or phase.inspect().arrived == number + 1, "it has come")  # type: ignore[misc]
        assert [wait.result() for wait in waits] == [0, 1, 2]


def test_timed_out_party_does_not_count(lw: Lockwork) -> None:
    phase = lw.barrier("phase", 2)
    with pytest.raises(WaitTimeout) as timed_out:
        phase.wait("20ms")
    assert isinstance(timed_out.value, TimeoutError)
    assert str(timed_out.value) == (
        "barrier 'phase': within 0.02 s not all of the 2 parties arrived (1 at the last count); "
        "this party no longer counts"
    )
    with pytest.raises(WaitTimeout):
        phase.wait(0)
    assert phase.inspect().arrived == 0
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(phase.wait, 30)
        until(lambda: phase.inspect().arrived == 1, "it has come")
        assert phase.wait(0) == 1
        assert other.result(10) == 0


async def test_cancelled_at_every_turn_of_the_loop(alw: Lockwork) -> None:
    phase = alw.barrier("phase", 2)
    await phase.ainspect()
    for count in range(12):
        task = asyncio.create_task(phase.await_())
        await turns(count)
        assert await cancelled(task)
        assert (await phase.ainspect()).arrived == 0


async def test_cancelled_while_it_opens(alw: Lockwork) -> None:
    """Either it was withdrawn in time and the other one waits on, or both have passed."""
    phase = alw.barrier("phase", 2)
    await phase.ainspect()
    opened = 0
    for count in range(20):
        first = asyncio.create_task(phase.await_())
        while not (await phase.ainspect()).arrived:
            await asyncio.sleep(0)
        second = asyncio.create_task(phase.await_())
        await turns(count % 10)
        await cancelled(first)
        if (await phase.ainspect()).arrived:
            second.cancel()
            with pytest.raises(asyncio.CancelledError):
                await second
        else:
            assert await second == 1
            opened += 1
        assert (await phase.ainspect()).arrived == 0
    assert opened


def test_party_with_another_count_is_refused(lw: Lockwork) -> None:
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(lw.barrier("phase", 2).wait, 30)
        until(lambda: lw.barrier("phase", 2).inspect().arrived, "it has come")
        with pytest.raises(
            ConfigError, match="barrier 'phase' is for 2 parties, and some of them wait; this handle says 3"
        ):
            lw.barrier("phase", 3).wait(1)
        assert lw.barrier("phase", 2).wait(30) == 1
        first.result(10)
    with pytest.raises(WaitTimeout):
        lw.barrier("phase", 3).wait(0)


def test_single_party_passes_at_once(lw: Lockwork) -> None:
    assert lw.barrier("alone", 1).wait() == 0


@phases
@pytest.mark.parametrize("first", [True, False])
def test_repeated_arrival_counts_once(lw: Lockwork, proxy: Proxy, phase: Phase, first: bool) -> None:
    with Lockwork(proxy.url) as app, ThreadPoolExecutor(1) as pool:
        app.barrier("phase", 2).inspect()
        if not first:
            other = pool.submit(lw.barrier("phase", 2).wait, 30)
            until(lambda: lw.barrier("phase", 2).inspect().arrived == 1, "the other has come")
        proxy.lose(script("synchronizers/barrier_arrive").sha, phase)
        if first:
            other = pool.submit(app.barrier("phase", 2).wait, 30)
            until(lambda: proxy.lost and lw.barrier("phase", 2).inspect().arrived == 1, "it has come, once")
            assert lw.barrier("phase", 2).wait(30) == 1
            assert other.result(10) == 0
        else:
            assert app.barrier("phase", 2).wait(30) == 1
            assert other.result(10) == 0
        assert proxy.lost == 1


def test_withdrawal_after_the_barrier_opened_is_a_pass(lw: Lockwork, url: str, admin: redis.Redis) -> None:
    """The time-out ends as the barrier opens; the server decides which came first."""
    phase = lw.barrier("phase", 2)
    with Lockwork(url) as unnotified, ThreadPoolExecutor(1) as pool:
        wait = pool.submit(unnotified.barrier("phase", 2).wait, 0.4)
        until(lambda: phase.inspect().arrived == 1, "it has come")
        unnotified.runtime.engine._mail.deliver = lambda ticket, text: None  # type: ignore[method-assign]
        assert phase.wait(30) == 1
        assert wait.result(10) == 0


def test_lost_wake_up_costs_a_moment(lw: Lockwork, url: str) -> None:
    """Redisson's semaphore waits without a timer: its message lost, it sleeps until the next one comes."""
    phase = lw.barrier("phase", 2)
    with Lockwork(url) as unnotified, ThreadPoolExecutor(1) as pool:
        wait = pool.submit(unnotified.barrier("phase", 2).wait, 30)
        until(lambda: phase.inspect().arrived == 1, "it has come")
        unnotified.runtime.engine._mail.deliver = lambda ticket, text: None  # type: ignore[method-assign]
        assert phase.wait(30) == 1
        assert wait.result(6) == 0


def test_barrier_keys_expire(lw: Lockwork, admin: redis.Redis) -> None:
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(lw.barrier("phase", 2).wait, 30)
        until(lambda: lw.barrier("phase", 2).inspect().arrived, "it has come")
        assert {key.decode() for key in keys_but_indexes(admin)} == set(barrier_keys("lw", "phase"))
        assert all(0 < admin.ttl(key) <= 120 for key in keys_but_indexes(admin))
        lw.barrier("phase", 2).wait(0)
        first.result(10)
    assert all(0 < admin.ttl(key) <= 120 for key in keys_but_indexes(admin))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda lw: lw.barrier(5, 1), "a barrier's name must be text, not 5"),
        (lambda lw: lw.barrier("phase", 0), "parties must be a whole number from 1 to 10,000, not 0"),
        (lambda lw: lw.barrier("phase", True), "parties must be"),
        (lambda lw: lw.barrier("phase", 10_001), "parties must be"),
        (lambda lw: lw.barrier("phase", 2).wait(-1), "timeout must be between"),
    ],
)
def test_bad_input_sends_no_command(lw: Lockwork, admin: redis.Redis, call: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        call(lw)
    assert not keys_but_indexes(admin)


def test_barrier_continues_after_losing_a_key(lw: Lockwork, admin: redis.Redis) -> None:
    """After an eviction or manual deletion, the waiting party arrives again at its next poll."""
    phase = lw.barrier("phase", 2)
    with ThreadPoolExecutor(2) as pool:
        for key in ("lw:{barrier:phase}", "lw:{barrier:phase}:places"):
            first = pool.submit(phase.wait, 30)
            until(lambda: phase.inspect().arrived == 1, "it has come")
            admin.delete(key)
            assert sorted([pool.submit(phase.wait, 30).result(10), first.result(10)]) == [0, 1]


@pytest.mark.parametrize("key", ["lw:{barrier:phase}", "lw:{barrier:phase}:places"])
def test_foreign_key_is_refused_without_partial_effects(lw: Lockwork, admin: redis.Redis, key: str) -> None:
    admin.set(key, "text", ex=100)
    phase = lw.barrier("phase", 2)
    for call in (phase.wait, phase.inspect):
        with pytest.raises(ServerRefused, match="data of another program"):
            call()
    assert keys_but_indexes(admin) == [key.encode()]
