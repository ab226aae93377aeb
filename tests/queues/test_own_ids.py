"""Jobs with the caller's own ids: one job has an id, until its outcome is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis

from lockwork import ConfigError, Lockwork
from lockwork.errors import QueueFull
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.scripts import script
from lockwork.testing import assert_enqueued, record, worker
from processes import until
from proxy import Phase, Proxy

KEYS = QueueKeys("lw", "default")


def charge(app: Lockwork, **options: Any) -> Any:
    """Register a task."""

    def charge(order: int, fails: bool = False) -> int:
        if fails:
            raise ValueError("no money")
        return order

    registered: Any = app.task(**{"retries": 0, **options})
    return registered(charge)


def own(task: Any, id: str = "order-42", **options: Any) -> Any:
    return task.options(id=id, **options)


def waiting(app: Lockwork, queue: str = "default") -> int:
    status = app.queue(queue).status()
    return status.ready + status.scheduled


# -- one job per id ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"delay": "1h"}, {"expires": "1h"}, {"key": "k"}, {"group": "g"}])
def test_second_enqueue_returns_the_waiting_job(lw: Lockwork, options: dict[str, Any]) -> None:
    task = own(charge(lw), **options)
    first, again = task.enqueue(1), task.enqueue(2)
    assert (first.id, first.new, first.arrival) == (":order-42", True, "new")
    assert (again.id, again.new, again.arrival) == (":order-42", False, "kept")
    assert waiting(lw) == 1
    assert again.inspect().args == (1,)
    assert first.cancel()


async def test_async_enqueues_return_the_waiting_job(alw: Lockwork) -> None:
    task = own(charge(alw))
    jobs = await asyncio.gather(*(task.aenqueue(number) for number in range(5)))
    assert sorted(job.new for job in jobs) == [False] * 4 + [True]
    assert (await alw.queue().astatus()).ready == 1
    again = await own(charge(alw, name="b"), "order-{order}").aenqueue_many([(1,), (42,), (1,)])
    assert [(job.id, job.new) for job in again] == [(":order-1", True), (":order-42", False), (":order-1", False)]


def test_id_in_use_until_the_result_is_gone(lw: Lockwork) -> None:
    task = charge(lw)
    with worker(lw):
        job = own(task).enqueue(1)
        assert job.result(30) == 1
        again = own(task).enqueue(2)
        assert (again.new, again.result(30)) == (False, 1)
        assert again.delete()
        assert again.state() == "unknown"
        third = own(task).enqueue(3)
        assert third.new
        assert third.result(30) == 3


def test_dead_job_has_its_id_and_runs_again(lw: Lockwork) -> None:
    task = charge(lw)
    with worker(lw):
        job = own(task).enqueue(1, fails=True)
        until(lambda: job.state() == "dead", "it failed")
        again = own(task).enqueue(2)
        assert (again.new, again.state()) == (False, "dead")
        assert again.retry()
        until(lambda: lw.queue().status().failed == 2, "it failed again")
        assert job.delete()
        fresh = own(task).enqueue(3)
        assert (fresh.new, fresh.result(30)) == (True, 3)


def test_deleted_dead_jobs_free_their_ids(lw: Lockwork) -> None:
    task = charge(lw)
    with worker(lw):
        job = own(task).enqueue(1, fails=True)
        until(lambda: job.state() == "dead", "it failed")
        assert lw.queue().dead.delete_all() == 1
        assert own(task).enqueue(3).result(30) == 3


@pytest.mark.parametrize("plain", [True, False])
def test_cancelled_job_has_its_id_until_it_is_deleted(lw: Lockwork, plain: bool) -> None:
    task = own(charge(lw, key=None if plain else "k"))
    job = task.enqueue(1)
    assert job.cancel()
    again = task.enqueue(2)
    assert (again.new, again.state()) == (False, "cancelled")
    assert again.retry()
    assert again.cancel()
    assert again.delete()
    new = task.options(priority="high").enqueue(3)
    assert (new.new, waiting(lw)) == (True, 1)
    with worker(lw):
        assert new.result(30) == 3
        assert lw.queue().status().succeeded == 1


def test_waiter_of_a_deleted_job_is_notified_and_the_id_is_free(lw: Lockwork, other: Lockwork) -> None:
    task = own(charge(lw))
    job = task.enqueue(1)
    channel = other.runtime.channel
    assert lw.runtime.run(_watched(channel)) == "active"
    assert job.delete()
    assert task.enqueue(2).new
    assert job.state() == "ready", "the handle shows the new job"


def _watched(channel: str) -> Any:
    from lockwork.protocol.queue import leases

    return (yield from leases.job_state(KEYS, ":order-42", channel)).state


def test_cleared_job_frees_its_id(lw: Lockwork) -> None:
    task = own(charge(lw))
    assert task.enqueue(1).new
    assert lw.queue().clear() == 1
    assert task.enqueue(1).new


def test_expired_job_has_its_id(lw: Lockwork) -> None:
    task = own(charge(lw))
    job = task.options(expires="10ms").enqueue(1)
    until(lambda: job.state() == "expired", "it is overdue")
    assert job.inspect().state == "expired"
    assert not task.enqueue(2).new
    assert job.retry()
    with worker(lw):
        assert job.result(30) == 1


def test_second_enqueue_does_not_change_the_expiry(lw: Lockwork) -> None:
    task = own(charge(lw))
    job = task.enqueue(1)
    task.options(expires="1h").enqueue(2)
    assert job.inspect().expires is None


def test_id_in_two_queues_is_two_jobs(lw: Lockwork) -> None:
    task = charge(lw, other_queues=["mail"])
    first, second = own(task).enqueue(1), own(task, queue="mail").enqueue(2)
    assert (first.new, second.new) == (True, True)
    assert lw.job(":order-42", "mail").inspect().args == (2,)
    assert lw.job(":order-42").inspect().args == (1,)
    assert task.job(":order-42").inspect().args == (1,)
    assert first.delete()
    assert lw.job(":order-42").inspect().args == (2,), "found in any queue"


def test_many_jobs_in_several_calls(lw: Lockwork) -> None:
    """A batch has 500 jobs at most; the same id may be in two batches."""
    task = own(charge(lw), "o-{order}")
    jobs = task.enqueue_many([(number % 900,) for number in range(1200)])
    assert [job.new for job in jobs] == [number < 900 for number in range(1200)]
    assert waiting(lw) == 900
    assert task.enqueue_many([]) == []


def test_full_queue_refuses_only_new_jobs(lw: Lockwork) -> None:
    task = own(charge(lw), "o-{order}")
    lw.queue().limit(size=2)
    assert [job.new for job in task.enqueue_many([(1,), (2,), (1,)])] == [True, True, False]
    assert not task.enqueue(2).new
    with pytest.raises(QueueFull):
        task.enqueue(3)
    with pytest.raises(QueueFull):
        task.enqueue_many([(1,), (3,)])
    assert waiting(lw) == 2


@pytest.mark.parametrize("phase", ["before", "after"])
def test_resent_call_with_an_own_id_is_new(lw: Lockwork, proxy: Proxy, phase: Phase) -> None:
    with Lockwork(proxy.url) as app:
        task = charge(app)
        own(task, "warm-up").enqueue(0)
        proxy.lose(script("queue/push_own").sha, phase)
        job = own(task).enqueue(1)
        proxy.lose(script("queue/push_own").sha, phase)
        again = own(task).enqueue(1)
        assert (job.new, again.new, again.id) == (True, False, job.id)
        assert waiting(lw) == 2


# -- with other features ----------------------------------------------------------------------------------------------


def test_only_new_jobs_run_the_enqueue_hook(lw: Lockwork) -> None:
    seen: list[str] = []
    lw.hooks.enqueue(lambda event: seen.append(event.id))
    task = own(charge(lw), "o-{order}")
    task.enqueue_many([(1,), (1,)])
    task.enqueue(1)
    assert seen == [":o-1"]


def test_commit_enqueues_the_job_once(lw: Lockwork) -> None:
    callbacks: list[Callable[[], object]] = []
    task = own(charge(lw)).on_commit(callbacks.append)
    jobs = [task.enqueue(1), task.enqueue(2)]
    assert {job.id for job in jobs} == {":order-42"}
    assert jobs[0].state() == "unknown"
    for callback in callbacks:
        callback()
    assert jobs[1].inspect().args == (1,)
    assert waiting(lw) == 1


def test_batch_task_gets_jobs_with_own_ids(lw: Lockwork) -> None:
    @lw.task(batch=10)
    def add(items: list[int]) -> list[int]:
        return [item + 1 for item in items]

    jobs = add.options(id="item-{item}").enqueue_many([(1,), (2,), (1,)])
    with worker(lw):
        assert [job.result(30) for job in jobs] == [2, 3, 2]
    assert [job.new for job in jobs] == [True, True, False]


def test_partition_follows_from_the_id(url: str, admin: redis.Redis) -> None:
    with Lockwork(url, partitions={"mail": 4}) as app:
        task = charge(app, queue="mail")
        jobs = [own(task, f"o-{number}").enqueue(number) for number in range(40)]
        again = [own(task, f"o-{number}").enqueue(number) for number in range(40)]
        assert [(job.queue, job.new) for job in again] == [(job.queue, False) for job in jobs]
        assert len({job.queue for job in jobs}) == 4
        assert [job.queue for job in own(task, "o-{order}").enqueue_many([(1,), (2,)])] == [
            jobs[1].queue,
            jobs[2].queue,
        ]
        assert app.job(jobs[3].id).inspect().args == (3,)
        with pytest.raises(ConfigError, match="key='k' and id='order-42' could decide two of them"):
            own(task, key="k")
        keyed = own(task, "{order}", key="{order}").enqueue(7)
        assert keyed.queue == task.options(key="{order}").enqueue(7).queue


def test_times_of_a_job_with_an_own_id_are_known(lw: Lockwork) -> None:
    task = charge(lw)
    before = datetime.now(UTC)
    job = own(task).enqueue(1)
    found = job.inspect()
    assert found.enqueued is not None
    assert before <= found.enqueued <= datetime.now(UTC)
    assert [each.enqueued for each in lw.jobs(task="charge").jobs] == [found.enqueued]
    (peeked,) = lw.queue().peek()
    assert peeked.age is not None
    assert peeked.age < 60
    assert lw.queue_ages()["default"] is not None
    with worker(lw):
        job.result(30)
    until(lambda: lw.jobs(task="charge", state="succeeded").jobs, "history has it")
    (ended,) = lw.jobs(task="charge", state="succeeded").jobs
    assert ended.enqueued == found.enqueued


def test_retry_until_counts_from_the_enqueue(lw: Lockwork) -> None:
    task = charge(lw, retry_until="1h")
    before = datetime.now(UTC)
    jobs = [own(task).enqueue(1), *own(task, "{order}").enqueue_many([(2,), (3,)])]
    with worker(lw):
        assert [job.result(30) for job in jobs] == [1, 2, 3]
    late = own(task, "late", delay="10m").enqueue(4)
    limit = late.inspect().retry_until
    assert limit is not None
    assert timedelta(hours=1) <= limit - before + timedelta(milliseconds=1) < timedelta(hours=1, minutes=1)


@pytest.mark.parametrize(
    "id",
    [
        "0NnhHJ0kVzCPa1G",  # with its colon as long as an id of ours
        "0NnhHJ0kVzCPa1Ggx",
        "0NnhHJ0kVzCPa1Gg123456",
        "0NnhHJ0kVzCPa1Gg",
        "daily@2026-01-01T00:00:00Z",
        "0NnhHJ0kVzCPa1Gg.00001",
        "0NnhHJ0kVzCPa1Gg.00001u",
    ],
)
def test_id_like_one_of_ours_is_found_by_search(lw: Lockwork, id: str) -> None:
    task = charge(lw)
    job = own(task, id, tags=["late"]).enqueue(1)
    found = job.inspect()
    assert (found.schedule, found.flow, found.tags) == (None, None, ("late",))
    searches: list[dict[str, Any]] = [{"task": "charge"}, {"tag": "late"}, {"text": id}]
    for filters in (*searches, {"since": "1m"}):
        assert [each.id for each in lw.jobs(**filters).jobs] == [f":{id}"], filters
    assert lw.jobs(task="other").jobs == []
    with worker(lw):
        assert job.result(30) == 1
    for filters in searches:
        assert [each.id for each in lw.jobs(state="succeeded", **filters).jobs] == [f":{id}"], filters


def test_recorded_job_has_its_own_id(lw: Lockwork) -> None:
    task = charge(lw)
    with record():
        job = own(task).enqueue(1)
        (made,) = assert_enqueued(task, args=(1,))
    assert (made.id, job.id, job.new) == (":order-42", ":order-42", True)


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("id", ["", ":x", "a b", "x" * 200, "a\n", "a\x00", "\ud800", "a\u2028b", 5, b"x", True])
def test_odd_id_is_refused(lw: Lockwork, id: Any) -> None:
    with pytest.raises(ConfigError, match="a job's own id must be text of 1 to 199 characters"):
        own(charge(lw), id)


def test_odd_argument_in_an_id_is_refused(lw: Lockwork) -> None:
    @lw.task
    def greet(name: str) -> None: ...

    named = greet.options(id="{name}")
    assert named.enqueue("x" * 199).new
    assert named.enqueue("größe/7:a,b;c%20").id == ":größe/7:a,b;c%20"
    for odd in ("", "Smith, Jane", "x" * 200, ":a", "{a}"):
        with pytest.raises(ConfigError, match="a job's own id must be text"):
            named.enqueue_many([("fine",), (odd,)])
    assert waiting(lw) == 2
    with pytest.raises(ConfigError, match="did you mean {name}"):
        greet.options(id="{nam}")


def test_options_that_exclude_an_own_id_are_refused(lw: Lockwork) -> None:
    task = charge(lw)
    with pytest.raises(ConfigError, match="a unique job cannot have its own id"):
        own(task, unique=True)
    with pytest.raises(ConfigError, match="cannot wait for replicas"):
        own(task, replicas=1)
    with pytest.raises(ConfigError, match=r"cannot have its own: call task.options\(id=None\)"):
        own(task).call(1)
    assert own(task).options(id=None).call(1).queue == "default"
    with pytest.raises(ConfigError, match="a task has no option 'id': set it for single jobs"):
        charge(lw, id="x")
    with pytest.raises(ConfigError, match=r"use task.options\(id="):
        task.options(job_id="x")
    with pytest.raises(ConfigError, match="must not begin with a colon"):
        lw.schedule(task.call(1), name=":order-42", every="1h")


def test_plain_record_has_no_time(lw: Lockwork, admin: redis.Redis) -> None:
    task = charge(lw)
    task.enqueue(1)
    task.options(id=None).enqueue(2)
    records: Any = admin.hvals(KEYS.jobs)
    assert sorted(records) == [b'1,1,,;["charge",[1]]', b'1,1,,;["charge",[2]]']
