"""The delay queue's operations, sync and async, and known flaws of older delay queues."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
import redis

from lockwork import ConfigError, Lockwork
from lockwork.protocol.delay_queue import delay_queue
from lockwork.protocol.delay_queue.delay_queue import DelayQueueEntry
from lockwork.protocol.effects import Protocol
from lockwork.queues.delay_queue import DelayQueue


def ids(entries: list[DelayQueueEntry]) -> list[str]:
    return [entry.id for entry in entries]


def test_due_entries_are_taken_oldest_first(lw: Lockwork) -> None:
    queue = lw.delay_queue("orders")
    now = datetime.now(UTC)
    for age, id in ((1, "c"), (3, "a"), (2, "b")):
        queue.add(id, at=now - timedelta(seconds=age))
    assert queue.add("later", delay="1h") == 1
    assert ids(queue.pop()) == ["a"]
    assert ids(queue.pop(10)) == ["b", "c"]
    assert queue.pop(10) == []
    assert len(queue) == 1


async def test_async_methods_of_delay_queue(alw: Lockwork) -> None:
    queue = alw.delay_queue("orders")
    assert await queue.aadd(["a", "b"]) == 2
    assert await queue.aadd("later", delay=3600) == 1
    assert await queue.alen() == 3
    (first,) = await queue.apeek()
    assert ids(await queue.apop(5)) == ["a", "b"]
    assert not await queue.aremove(first.id, first.score)
    assert await queue.aremove("later")
    await queue.aadd("c")
    assert await queue.aclear() == 1
    assert await queue.apop() == []


def test_add_keeps_queued_id_by_default(lw: Lockwork) -> None:
    """Seed system A2: its code keeps the earlier entry."""
    queue = lw.delay_queue("orders")
    assert queue.add(["a", "b"], delay=60) == 2
    (before,) = queue.peek(due=False)
    assert queue.add(["a", "c", "c"]) == 1
    assert ids(queue.peek(10)) == ["c"]
    assert before in queue.peek(10, due=False)


def test_add_replaces_queued_id_on_request(lw: Lockwork) -> None:
    """Seed system A2: its documentation says that the later entry replaces the earlier one."""
    queue = lw.delay_queue("orders")
    queue.add("a")
    assert queue.add(["a", "b"], delay=60, on_duplicate="replace") == 2
    assert queue.peek() == []
    moment = datetime.now(UTC)
    assert queue.add("a", at=moment, on_duplicate="replace") == 1
    assert queue.add("a", at=moment, on_duplicate="replace") == 0, "the time did not change"
    assert [entry.due for entry in queue.pop()] == [moment]


def test_remove_with_score_skips_changed_entry(lw: Lockwork) -> None:
    """Seed system A2: an entry that was queued again since the read stays."""
    queue = lw.delay_queue("orders")
    queue.add("a")
    (read,) = queue.peek()
    queue.add("a", delay=60, on_duplicate="replace")
    assert not queue.remove("a", read.score)
    (moved,) = queue.peek(due=False)
    assert queue.remove("a", moved.score)
    assert not queue.remove("a")
    queue.add("a", delay=60)
    assert queue.remove("a")
    assert len(queue) == 0


def test_times_are_stored_in_whole_microseconds(lw: Lockwork, admin: redis.Redis) -> None:
    """Seed system A2: its scores are fractions of seconds, which lose digits."""
    queue = lw.delay_queue("orders")
    base = datetime(2020, 1, 1, tzinfo=timezone(timedelta(hours=8)))
    for microseconds in (3, 1, 2):
        queue.add(f"e{microseconds}", at=base + timedelta(microseconds=microseconds))
    found = queue.peek(3)
    assert [entry.score for entry in found] == [1577808000000001, 1577808000000002, 1577808000000003]
    assert found[0].due == base + timedelta(microseconds=1)
    assert found[0].due.tzinfo is UTC
    assert admin.zscore("lw:{dq:orders}", "e1") == 1577808000000001, "the key is a documented contract"
    far = datetime(2254, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    queue.add("far", at=far)
    assert queue.peek(10, due=False)[-1].due == far


def test_operations_need_no_lock(lw: Lockwork, admin: redis.Redis) -> None:
    """Seed system A2 wraps every operation in a lock, whose holder may die; here each operation is one script."""
    queue = lw.delay_queue("orders")
    taken: list[str] = []
    queue.add([f"{number:04d}" for number in range(2000)])

    def take() -> None:
        while got := queue.pop(7):
            taken.extend(ids(got))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == len(set(taken)) == 2000
    assert not list(admin.scan_iter("*lock*"))


def test_add_accepts_a_hundred_thousand_entries(lw: Lockwork) -> None:
    queue = lw.delay_queue("orders")
    assert queue.add(map(str, range(100_000))) == 100_000
    assert len({entry.score for entry in queue.peek(10_000)}) == 1, "one call has one time"
    assert len(ids(queue.pop(10_000))) == 10_000
    assert len(queue) == 90_000
    assert queue.clear() == 90_000


def test_members_written_by_other_programs_are_returned(lw: Lockwork, admin: redis.Redis) -> None:
    queue = lw.delay_queue("orders")
    admin.zadd("lw:{dq:orders}", {b"\xff\xfe": 12.5, b"x y {z}": 11})
    first, second = queue.pop(2)
    assert (first.id, first.score) == ("x y {z}", 11)
    assert (second.id.encode("utf-8", "surrogateescape"), second.score) == (b"\xff\xfe", 12)
    admin.zadd("lw:{dq:orders}", {b"\xff\xfe": 12.5})
    assert queue.remove(second.id, second.score)


def test_resent_call_has_no_further_effect(lw: Lockwork) -> None:
    """redis-py repeats a call with a lost reply, and a repeated ZPOPMIN would lose entries."""
    queue = lw.delay_queue("orders")
    keys = queue._keys

    def send(made: Protocol[Any], times: int = 2) -> list[Any]:
        driver: Any = lw.runtime._sync
        call = next(made)
        while type(call).__name__ != "Call":
            call = made.send(0.0)
        return [driver.perform(call) for _ in range(times)]

    queue.add(["a", "b"])
    one, two = send(delay_queue.pop(keys, "r1", "", 1, 0))
    assert one == two
    assert len(queue) == 1
    queue.clear()
    add = delay_queue.add(keys, "r2", ["a"], None, 0, replace=False)
    (first,) = send(add, 1)
    assert ids(queue.pop()) == ["a"]
    assert send(delay_queue.add(keys, "r2", ["a"], None, 0, replace=False), 1) == [first]
    assert len(queue) == 0, "it is not queued again"
    queue.add("a", at=datetime(2020, 1, 1, tzinfo=UTC))
    assert send(delay_queue.remove(keys, "r3", "a", None), 1) == [1]
    queue.add("a")
    assert send(delay_queue.remove(keys, "r3", "a", None), 1) == [1]
    assert len(queue) == 1, "the new entry stays"
    assert send(delay_queue.clear(keys, "r4"), 1) == [1]
    queue.add("a")
    assert send(delay_queue.clear(keys, "r4"), 1) == [1]
    assert len(queue) == 1


def test_interrupted_pop_returns_its_entries(lw: Lockwork) -> None:
    queue = lw.delay_queue("orders")
    queue.add(["a", "b", "c"], at=datetime(2020, 1, 1, tzinfo=UTC))
    before = queue.peek(3)
    made = delay_queue.pop(queue._keys, "r", "", 3, 0)
    driver: Any = lw.runtime._sync
    value: Any = None
    while type(effect := made.send(value)).__name__ == "Clock":
        value = 0.0
    driver.perform(effect)
    queue.add("b", delay=60)  # queued again: the newer entry stays
    undo = made.throw(KeyboardInterrupt())
    driver.perform(undo)
    assert driver.perform(effect) == [0], "a late call pops nothing"
    assert queue.peek(3) == [before[0], before[2]]
    assert len(queue) == 3


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda queue: queue.add(""), "an id is text of 1 to 512 characters"),
        (lambda queue: queue.add([1]), "an id is text"),
        (lambda queue: queue.add("a\ud800"), "UTF-8"),
        (lambda queue: queue.add("a", delay=-1), "delay must be between 0 and 366 days"),
        (lambda queue: queue.add("a", at=datetime(2020, 1, 1)), "at must be a datetime with a time zone"),  # noqa: DTZ001 - wrong on purpose
        (lambda queue: queue.add("a", at=datetime(1960, 1, 1, tzinfo=UTC)), "between 1970 and 2255"),
        (lambda queue: queue.add("a", 5, at=datetime(2020, 1, 1, tzinfo=UTC)), "a delay or a time, not both"),
        (lambda queue: queue.add("a", on_duplicate="drop"), "on_duplicate must be one of keep, replace"),
        (lambda queue: queue.pop(0), "limit must be a whole number from 1 to 10,000"),
        (lambda queue: queue.peek(10_001), "limit must be a whole number"),
        (lambda queue: queue.pop(wait=-1), "wait must be between 0"),
        (lambda queue: queue.remove("a", 1.5), "a score is a whole number of microseconds"),
    ],
)
def test_wrong_arguments_are_refused(lw: Lockwork, make: Any, text: str) -> None:
    queue = lw.delay_queue("orders")
    with pytest.raises(ConfigError, match=text):
        make(queue)
    assert len(queue) == 0


def test_empty_delay_queue_is_truthy(lw: Lockwork) -> None:
    queue = lw.delay_queue("orders")
    assert queue
    assert repr(queue) == "<DelayQueue 'orders'>"
    assert isinstance(queue, DelayQueue)
    with pytest.raises(ConfigError, match="a delay queue's name must be text, not 5"):
        lw.delay_queue(5)  # type: ignore[arg-type]
