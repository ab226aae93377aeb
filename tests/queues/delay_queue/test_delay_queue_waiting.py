"""Waiting for entries of a delay queue: waiters receive due entries in time, and are removed when they end."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime

import pytest
import redis

from commandstats import command_calls
from lockwork import Lockwork
from lockwork.protocol.delay_queue import delay_queue
from lockwork.protocol.delay_queue.delay_queue import DelayQueueEntry
from lockwork.protocol.effects import Protocol
from processes import script, until


def test_pop_waits_for_an_added_entry(lw: Lockwork) -> None:
    queue = lw.delay_queue("orders")
    found: list[DelayQueueEntry] = []
    waiter = threading.Thread(target=lambda: found.extend(queue.pop(5, wait=None)))
    waiter.start()
    _until_waiting(lw, 1)
    queue.add(["a", "b"])
    waiter.join(4)
    assert [entry.id for entry in found] == ["a", "b"]


def test_entry_added_before_the_subscription_is_received(lw: Lockwork, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message comes before the subscription, and the subscription before the mailbox, so no wake-up arrives."""
    queue, woken_up, engine = lw.delay_queue("orders"), threading.Event(), lw.runtime.engine
    wake_all, listen = engine._mail.wake_all, engine.listen

    def woken() -> None:
        wake_all()
        woken_up.set()

    def begins() -> None:
        if not woken_up.is_set():
            queue.add(["a"])
            listen()
            assert woken_up.wait(30)

    monkeypatch.setattr(engine._mail, "wake_all", woken)
    monkeypatch.setattr(engine, "listen", begins)
    found: list[DelayQueueEntry] = []
    waiter = threading.Thread(target=lambda: found.extend(queue.pop(wait=None)))
    waiter.start()
    waiter.join(4)
    assert [entry.id for entry in found] == ["a"]


def test_pop_waits_until_an_entry_is_due(lw: Lockwork, admin: redis.Redis) -> None:
    queue = lw.delay_queue("orders")
    queue.add("a", delay="150ms")
    calls = _calls(admin)
    (entry,) = queue.pop(wait=30)
    assert entry.id == "a"
    assert _calls(admin) - calls <= 4, "it does not poll"
    assert entry.due <= datetime.now(UTC)


def test_earlier_entry_is_popped_first(lw: Lockwork) -> None:
    queue = lw.delay_queue("orders")
    queue.add("late", delay=3600)
    found: list[DelayQueueEntry] = []
    waiter = threading.Thread(target=lambda: found.extend(queue.pop(wait=None)))
    waiter.start()
    _until_waiting(lw, 1)
    queue.add("soon", delay="50ms")
    waiter.join(4)
    assert [entry.id for entry in found] == ["soon"]


async def test_waiters_share_new_entries(alw: Lockwork) -> None:
    queue = alw.delay_queue("orders")
    waiters = [asyncio.create_task(queue.apop(wait=None)) for _ in range(20)]
    while await _waiting(alw) < 20:
        await asyncio.sleep(0.005)
    await queue.aadd([f"{number:02d}" for number in range(10)])
    await queue.aadd([f"{number:02d}" for number in range(10, 20)], delay="50ms")
    async with asyncio.timeout(20):
        found = await asyncio.gather(*waiters)
    assert sorted(entry.id for got in found for entry in got) == [f"{number:02d}" for number in range(20)]
    assert await _waiting(alw) == 0


def test_pop_returns_empty_list_after_its_wait(lw: Lockwork) -> None:
    queue = lw.delay_queue("orders")
    assert queue.pop(wait="50ms") == []
    until(lambda: not lw.runtime.run(_line(lw)), "no waiter remains")


async def test_cancelled_waiter_is_removed(alw: Lockwork) -> None:
    queue = alw.delay_queue("orders")
    first, second = (asyncio.create_task(queue.apop(wait=None)) for _ in range(2))
    while await _waiting(alw) < 2:
        await asyncio.sleep(0.005)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert await _waiting(alw) == 1
    await queue.aadd("a")
    async with asyncio.timeout(4):
        assert [entry.id for entry in await second] == ["a"]


def test_dead_waiter_delays_the_next_only_briefly(lw: Lockwork, url: str) -> None:
    queue = lw.delay_queue("orders")
    with script(
        "import os\nfrom lockwork import Lockwork\n"
        "print(Lockwork(os.environ['LOCKWORK_URL']).delay_queue('orders').pop(wait=None))",
        url=url,
    ) as other:
        _until_waiting(lw, 1)
        other.process.kill()
        other.wait()
    found: list[DelayQueueEntry] = []
    waiter = threading.Thread(target=lambda: found.extend(queue.pop(wait=None)))
    waiter.start()
    _until_waiting(lw, 2)
    queue.add("a", delay="20ms")
    waiter.join(8)
    assert [entry.id for entry in found] == ["a"]


def _line(lw: Lockwork) -> Protocol[int]:
    keys = lw.delay_queue("orders")._keys
    return delay_queue.count(keys._replace(entries=keys.waiters))


async def _waiting(lw: Lockwork) -> int:
    return await lw.runtime.arun(_line(lw))


def _until_waiting(lw: Lockwork, count: int) -> None:
    until(lambda: lw.runtime.run(_line(lw)) >= count, f"{count} waiters")


def _calls(admin: redis.Redis) -> int:
    return command_calls(admin, "eval", "evalsha")
