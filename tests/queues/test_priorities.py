"""Ten priorities, 0 to 9, in queues that ask for them; the words high, normal and low in all queues."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from lockwork import ConfigError, Lockwork
from lockwork.errors import QueueFull
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import leases, records
from lockwork.protocol.queue.leases import Outcome
from lockwork.protocol.queue.priority import digit, rank, shown
from lockwork.testing import record, worker
from processes import until

KEYS = QueueKeys("lw", "mail")
SESSION = "host/1/a"


@pytest.fixture
def ten(app_url: str, admin: redis.Redis) -> Iterator[Lockwork]:
    """An app whose queue "mail" has ten priorities."""
    with Lockwork(app_url, ten_priorities=["mail"]) as app:
        yield app


def send(app: Lockwork, **options: Any) -> Any:
    """Register a task."""

    def send(number: int) -> int:
        return number

    registered: Any = app.task(**{"queue": "mail", "retries": 0, **options})
    return registered(send)


def fetch(app: Lockwork, want: int, request: str = "r1") -> list[int]:
    """Lease jobs as a worker does; return their arguments, in the order of the reply."""
    app.runtime.run(leases.beat(KEYS, {SESSION: True}, 60_000, 1))
    batch = app.runtime.run(leases.reserve(KEYS, SESSION, want, request, ""))
    ended = [Outcome(job.id, job.token, "s", b"1", 0) for job in batch.jobs]
    app.runtime.run(leases.settle(KEYS, SESSION, ended, 600_000))
    calls = [records.read(job.record, len(job.record), job.id) for job in batch.jobs]
    return [call.args[0] for call in calls if call.args]


def test_numbers_start_in_order_from_0_to_9(ten: Lockwork) -> None:
    task = send(ten)
    for number in (5, 9, 0, 7, 2, 8, 1, 3, 6, 4):
        task.options(priority=number).enqueue(number)
    assert [fetch(ten, 1, f"r{at}")[0] for at in range(10)] == list(range(10))


def test_words_are_numbers(ten: Lockwork) -> None:
    """`high` is 0, `normal` is 5, `low` is 9; jobs of one priority start in the order of their enqueue."""
    task = send(ten)
    for at, priority in enumerate(("low", 9, "normal", 5, "high", 0, "low", 6, 4, 1, 8)):
        task.options(priority=priority).enqueue(at)
    task.enqueue(11)  # normal
    assert [fetch(ten, 1, f"r{at}")[0] for at in range(12)] == [4, 5, 9, 8, 2, 3, 11, 7, 10, 0, 1, 6]


def test_urgent_job_overtakes_any_number_of_others(ten: Lockwork) -> None:
    task = send(ten)
    task.options(priority=8).enqueue_many([(8,)] * 2500)
    task.options(priority=6).enqueue_many([(6,)] * 1200)
    task.options(priority=1).enqueue(1)
    assert fetch(ten, 3) == [1, 6, 6]
    task.options(priority=2).enqueue(2)
    assert fetch(ten, 2, "r2") == [2, 6]


def test_many_due_jobs_start_in_order(ten: Lockwork) -> None:
    """One fetch moves up to 1,000 due jobs before it leases."""
    task = send(ten)
    for number in (8, 7, 6, 3):
        task.options(priority=number, delay="1ms").enqueue_many([(number,)] * 200)
    until(lambda: ten.queue("mail").status().ready == 800, "they are due")
    assert fetch(ten, 100) == [3] * 100
    assert ten.queue("mail").status().ready == 700
    assert fetch(ten, 200, "r2") == [3] * 100 + [6] * 100


def test_jobs_of_a_key_keep_their_order(ten: Lockwork) -> None:
    task = send(ten, key="order:7")
    task.enqueue(1)
    task.options(priority=1).enqueue(2)
    task.options(priority=8).enqueue(3)
    assert [fetch(ten, 2, f"r{at}") for at in range(3)] == [[1], [2], [3]]


def test_groups_take_turns_within_a_priority(ten: Lockwork) -> None:
    task = send(ten, group="tenant:{number}", group_concurrency=5)
    for number in (1, 1, 1, 2, 3):
        task.options(priority=7).enqueue(number)
    task.options(priority=6).enqueue(3)
    assert fetch(ten, 4) == [3, 1, 2, 3]
    assert fetch(ten, 4, "r2") == [1, 1]


async def test_async_enqueues_have_their_priorities(ten: Lockwork) -> None:
    task = send(ten)
    await asyncio.gather(*(task.options(priority=number).aenqueue(number) for number in (9, 6, 3, 0)))
    await task.options(priority=1).aenqueue_many([(1,), (1,)])
    assert await asyncio.to_thread(fetch, ten, 6) == [0, 1, 1, 3, 6, 9]


def test_worker_runs_numbered_jobs(ten: Lockwork) -> None:
    task = send(ten, priority=7)
    with worker(ten):
        assert [job.result(30) for job in task.enqueue_many([(1,), (2,)])] == [1, 2]
        late = task.options(delay="10ms", expires="1h").enqueue(3)
        assert late.result(30) == 3


def test_idle_worker_is_woken_by_a_numbered_job(ten: Lockwork) -> None:
    task = send(ten, priority=3)
    with worker(ten):
        task.enqueue(0).result(30)
        for number in range(5):
            assert task.enqueue(number).result(2) == number, "without a wake-up, the worker looks after 5 s"


def test_other_ways_to_enqueue_have_priorities(ten: Lockwork) -> None:
    task = send(ten)
    task.options(priority=8, unique=True).enqueue(8)
    task.options(priority=7, id="seven").enqueue(7)
    flow = ten.flow()
    flow.add(task.options(priority=3).call(3))
    flow.enqueue()
    ten.queue("mail").lock("a").acquire().release_and_enqueue(task.options(priority=1).call(1))
    assert fetch(ten, 9) == [1, 3, 7, 8]


# -- what people see --------------------------------------------------------------------------------------------------


def test_numbers_are_shown(ten: Lockwork) -> None:
    task = send(ten, group="{number}")
    jobs = [task.options(priority=number).enqueue(number) for number in range(10)]
    shown_as = ["high", 1, 2, 3, 4, "normal", 6, 7, 8, "low"]
    assert [job.inspect().priority for job in jobs] == shown_as
    assert sorted(map(str, (job.priority for job in ten.jobs("mail").jobs))) == sorted(map(str, shown_as))
    for number in (3, 5, 8):
        assert [job.id for job in ten.jobs("mail", group=str(number)).jobs] == [jobs[number].id]
    age = ten.queue_ages()["mail"]
    assert age is not None
    assert age < 60


def test_peek_has_the_order_of_the_starts(ten: Lockwork) -> None:
    task = send(ten)
    for number in (9, 7, 5, 3, 1, 0, 2, 4, 6, 8, 8):
        task.options(priority=number).enqueue(number)
    peeked = ten.queue("mail").peek(100)
    assert [rank(job.call.priority) for job in peeked] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 9]
    pages = [job.id for skip in range(0, 12, 3) for job in ten.queue("mail").peek(3, skip=skip)]
    assert pages == [job.id for job in peeked]
    assert ten.queue("mail").status().ready == 11
    assert ten.queue("mail").clear() == 11
    assert ten.queue("mail").status().ready == 0


def test_partitions_have_priorities(app_url: str, admin: redis.Redis) -> None:
    with Lockwork(app_url, partitions={"mail": 3}, ten_priorities=["mail"]) as app:
        task = send(app)
        for number in (9, 7, 5, 3, 1) * 4:
            task.options(priority=number).enqueue(number)
        ranks = [rank(job.call.priority) for job in app.queue("mail").peek(100)]
        assert ranks == sorted(ranks)


def test_size_of_a_queue_counts_numbered_jobs(ten: Lockwork) -> None:
    task = send(ten, priority=7)
    ten.queue("mail").limit(size=2)
    task.enqueue_many([(1,), (2,)])
    with pytest.raises(QueueFull):
        task.enqueue(3)


def test_recorded_job_has_its_number(ten: Lockwork) -> None:
    with record() as made:
        send(ten).options(priority=7).enqueue(1)
    assert [job.priority for job in made.jobs] == [7]


# -- changes of the setting -------------------------------------------------------------------------------------------


def test_jobs_remain_when_a_queue_loses_its_numbers(ten: Lockwork, lw: Lockwork) -> None:
    task = send(ten)
    for number in (8, 3, 7):
        task.options(priority=number).enqueue(number)
    with pytest.raises(ConfigError, match="queue 'mail' has the priorities high, normal and low"):
        send(lw, priority=3)
    plain = send(lw)
    plain.enqueue(5)
    assert lw.queue("mail").status().ready == 4
    assert fetch(lw, 9) == [3, 5, 7, 8]


def test_waiting_jobs_keep_their_words_when_a_queue_gets_numbers(ten: Lockwork, lw: Lockwork) -> None:
    plain = send(lw)
    for priority in ("low", "normal", "high"):
        plain.options(priority=priority).enqueue({"high": 0, "normal": 5, "low": 9}[priority])
    send(ten).options(priority=4).enqueue(4)
    assert fetch(ten, 9) == [0, 4, 5, 9]


def test_nothing_of_numbered_jobs_remains(ten: Lockwork, admin: redis.Redis) -> None:
    task = send(ten, group="g", priority=7)
    task.enqueue(1)
    ten.runtime.run(leases.beat(KEYS, {SESSION: True}, 60_000, 1))
    assert fetch(ten, 1) == [1]
    ten.runtime.run(leases.reserve(KEYS, SESSION, 1, "r2", "channel"))
    assert admin.hget(KEYS.stats, "numbered") is None
    fields: Any = admin.hkeys(KEYS.groups)
    assert [field for field in fields if field != b"#"] == []


def test_words_in_a_queue_with_numbers_are_plain_jobs(ten: Lockwork, admin: redis.Redis) -> None:
    task = send(ten)
    task.enqueue(1)
    task.options(priority=5).enqueue(2)
    assert admin.llen(KEYS.ready[1]) == 2
    assert not admin.exists(KEYS.group_queue, KEYS.groups)


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("priority", [-1, 10, "7", 7.0, True, None, "urgent"])
def test_wrong_priority_is_refused(ten: Lockwork, priority: Any) -> None:
    with pytest.raises(
        ConfigError, match="priority must be one of high, normal, low, or, in a queue of ten_priorities"
    ):
        send(ten).options(priority=priority)


@pytest.mark.parametrize("priority", [0, 5, 7])
def test_number_in_another_queue_is_refused(ten: Lockwork, priority: int) -> None:
    task = send(ten, queue="other", other_queues=["mail"])
    with pytest.raises(ConfigError, match=r"use one of these, or Lockwork\(ten_priorities=\['other'\]\)"):
        task.options(priority=priority)
    assert task.options(queue="mail", priority=priority).options_in_force.queue == "mail"
    with pytest.raises(ConfigError, match="not numbers"):
        send(ten, queue="another", priority=priority)


@pytest.mark.parametrize("names", ["mail", 7, ["a b"], ["mail/1"], [None]])
def test_wrong_list_of_queues_is_refused(names: Any) -> None:
    with pytest.raises(ConfigError):
        Lockwork(ten_priorities=names)


def test_priorities_have_digits() -> None:
    assert [digit(number) for number in range(10)] == [0, 3, 4, 5, 6, 1, 7, 8, 9, 2]
    assert [rank(shown(digit(number))) for number in range(10)] == list(range(10))
    assert [shown(digit(word)) for word in ("high", "normal", "low")] == ["high", "normal", "low"]
