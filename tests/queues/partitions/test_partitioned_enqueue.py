"""Enqueuing to a partitioned queue: the partition of each job, and the results for its producer."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from lockwork import Job, Lockwork
from lockwork.errors import JobNotReplicated, QueueFull
from lockwork.partitions import numbered
from lockwork.protocol.keys import QueueKeys
from replicated import replicated

ALL = [f"mail/{number}" for number in range(4)]


def plain(app: Lockwork, **options: Any) -> Any:
    def send(number: int) -> None: ...

    made: Any = app.task(queue="mail", **options)
    return made(send)


def home(name: object) -> str:
    return f"mail/{numbered(str(name), 4)}"


def test_plain_jobs_alternate_between_partitions(four: Lockwork) -> None:
    send = plain(four)
    found = [send.enqueue(number).queue for number in range(8)]
    assert sorted(found[:4]) == ALL
    assert found[:4] == found[4:], "in turn"
    later = send.options(delay="1h").enqueue(1)
    assert later.queue == found[0], "jobs with options take their turn as well"
    assert four.job(later.id, later.queue).state() == "scheduled"


def test_processes_start_with_different_partitions(url: str) -> None:
    begins = set()
    for _ in range(60):
        with Lockwork(url, partitions={"mail": 4}) as app:
            begins.add(next(plain(app)._turns))
    assert begins == {0, 1, 2, 3}


@pytest.mark.parametrize("options", [{"key": "{number}"}, {"group": "{number}"}, {"unique": "{number}"}])
def test_names_decide_the_partition(four: Lockwork, options: dict[str, Any]) -> None:
    send = plain(four, **options)
    for number in range(20):
        assert send.enqueue(number).queue == home(number)
    assert [job.queue for job in send.enqueue_many((number,) for number in range(20, 60))] == [
        home(number) for number in range(20, 60)
    ]
    counted = Counter(home(number) for number in range(60))
    assert {part.name: part.status().enqueued for part in four.queue("mail").partitions} == counted


def test_unique_job_is_unique_across_partitions(four: Lockwork) -> None:
    send = plain(four, unique=True)
    first = send.enqueue(1)
    assert (send.enqueue(1).id, send.enqueue(1).new) == (first.id, False)
    again = send.enqueue_many([(1,), (2,), (1,), (3,)])
    assert [job.new for job in again] == [False, True, False, True]
    assert again[0].id == again[2].id == first.id
    assert four.queue("mail").status().enqueued == 3


async def test_async_enqueue_uses_partitions(url: str, admin: object) -> None:
    async with Lockwork(url, partitions={"mail": 4}) as app:
        send, keyed = plain(app), plain(app, name="keyed", key="{number}")
        jobs = await asyncio.gather(*(send.aenqueue(number) for number in range(40)))
        assert Counter(job.queue for job in jobs) == dict.fromkeys(ALL, 10)
        assert [await job.astate() for job in jobs] == ["ready"] * 40
        jobs = await asyncio.gather(*(keyed.aenqueue(number) for number in range(40)))
        assert [job.queue for job in jobs] == [home(number) for number in range(40)]
        assert [await job.astate() for job in jobs] == ["ready"] * 40
        unique = plain(app, name="unique", unique="{number}")
        assert (await unique.aenqueue(5)).id == (await unique.aenqueue(5)).id
        assert (await send.options(expires="1h").aenqueue(1)).queue in ALL
        assert len(await keyed.aenqueue_many((number,) for number in range(30))) == 30
        assert (await app.queue("mail").astatus()).enqueued == 112


def test_handles_have_the_order_of_the_calls(four: Lockwork, admin: redis.Redis) -> None:
    keyed = plain(four, key="{number}")
    jobs: list[Job[None]] = keyed.enqueue_many((number,) for number in range(3000))
    assert [job.queue for job in jobs] == [home(number) for number in range(3000)]
    for number in (0, 1, 999, 1000, 2999):
        record: Any = admin.hget(QueueKeys("lw", jobs[number].queue).jobs, jobs[number].id)
        assert record.endswith(b"[%d]]" % number)


def test_plain_jobs_are_sent_in_whole_batches(four: Lockwork) -> None:
    jobs = plain(four).enqueue_many((number,) for number in range(2250))
    runs = [jobs[at].queue for at in range(0, 2250, 250)]
    assert runs[0] == runs[1] != runs[2] == runs[3]
    assert runs[6] == runs[8], "batches of one partition are adjacent"
    assert Counter(job.queue for job in jobs) == {runs[0]: 500, runs[2]: 500, runs[4]: 500, runs[6]: 750}
    assert len({job.id for job in jobs}) == 2250
    assert plain(four).enqueue_many([]) == []


def test_full_partition_error_lists_the_missing_jobs(four: Lockwork) -> None:
    keyed, send = plain(four, key="{number}"), plain(four, name="plain")
    four.queue("mail/2").limit(size=10)
    numbers = list(range(100))
    said = r"in queue 'mail/2', and its limit is 10.*\(\d+ of the 100 jobs are enqueued\)"
    with pytest.raises(QueueFull, match=said) as caught:
        keyed.enqueue_many((number,) for number in numbers)
    full = caught.value
    assert (full.queue, full.limit, full.enqueued + len(full.missing)) == ("mail/2", 10, 100)
    there = {job.call.args[0] for job in four.queue("mail").peek(1000) if job.call.args}
    assert there == set(numbers) - {numbers[at] for at in full.missing}
    assert len(there) == full.enqueued
    four.queue("mail/2").limit(size=None)
    keyed.enqueue_many((numbers[at],) for at in full.missing)
    assert four.queue("mail").status().enqueued == 100, "the missing jobs can be enqueued later"

    four.queue("mail").clear()
    four.queue("mail").limit(size=0)
    with pytest.raises(QueueFull, match="queue 'mail/") as caught:
        send.enqueue(1)
    assert (caught.value.enqueued, caught.value.missing) == (0, ())


def test_plain_batches_stop_at_the_first_full_partition(four: Lockwork) -> None:
    send = plain(four)
    first = send.enqueue(0).queue
    third = ALL[(ALL.index(first) + 3) % 4]  # counted from the first partition
    four.queue(third).limit(size=0)
    with pytest.raises(QueueFull) as caught:
        send.enqueue_many((number,) for number in range(1750))
    assert (caught.value.queue, caught.value.enqueued) == (third, 1000)
    assert caught.value.missing == tuple(range(1000, 1750))


def test_options_apply_to_jobs_of_partitions(four: Lockwork) -> None:
    send = plain(four)
    assert send.options(key="k").enqueue(1).queue == send.options(group="k").enqueue(2).queue == home("k")
    assert send.options(expires="1h", priority="high").enqueue(3).queue in ALL
    assert send.options(unique="k").enqueue(4).queue == home("k")
    status = four.queue("mail").status()
    assert (status.enqueued, status.ready, status.scheduled) == (4, 4, 0)


def test_hooks_receive_the_partition(four: Lockwork) -> None:
    told: list[Any] = []
    four.hooks.enqueue(lambda event: told.append((event.queue, event.args)))
    send = plain(four, key="{number}")
    send.enqueue(1)
    send.enqueue_many([(2,), (3,)])
    assert sorted(told) == sorted((home(number), [number]) for number in (1, 2, 3))


def test_jobs_on_commit_go_to_their_partitions(four: Lockwork) -> None:
    callbacks: list[Callable[[], object]] = []
    send, keyed = plain(four), plain(four, name="keyed", key="{number}")
    one = send.on_commit(callbacks.append).enqueue(1)
    many = keyed.on_commit(callbacks.append).enqueue_many((number,) for number in range(20))
    assert [job.queue for job in many] == [home(number) for number in range(20)]
    assert four.queue("mail").status().enqueued == 0
    for callback in callbacks:
        callback()
    assert one.state() == "ready", "the handle names the partition"
    assert {job.state() for job in many} == {"ready"}


def test_unpartitioned_queue_of_the_same_app(four: Lockwork, other: Lockwork) -> None:
    @four.task
    def here(number: int) -> None: ...

    assert type(here).__name__ == "Task"
    job = here.enqueue(1)
    assert job.queue == "default"
    assert other.job(job.id).state() == "ready"


def test_partitioned_enqueue_confirms_replicas(tmp_path: Path) -> None:
    with replicated(tmp_path) as pair, Lockwork(pair.url, partitions={"mail": 4}) as app:
        keyed = plain(app, key="{number}", replicas=1)
        jobs = keyed.enqueue_many((number,) for number in range(20))
        for job in jobs:
            assert pair.replica.hexists(QueueKeys("lw", job.queue).jobs, job.id)
        with pair.frozen(), pytest.raises(JobNotReplicated) as caught:
            keyed.options(replicas=1).enqueue_many((number,) for number in range(20, 40))
        assert len(caught.value.ids) == len(set(caught.value.ids)) == 20
        assert app.queue("mail").status().enqueued == 40, "the jobs are enqueued anyway"
