"""The dead jobs of all partitions as one dead set."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from lockwork import ConfigError, Lockwork
from lockwork.ids import new_ids
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import leases
from lockwork.protocol.queue.enqueue import NewJob, push
from lockwork.protocol.queue.leases import Outcome
from processes import until

SESSION = "host/1/a"


def bury(app: Lockwork, partition: int, numbers: list[int], task: str = "send", error: str = "ValueError") -> list[str]:
    """Let jobs of one partition die, one after the other; return their IDs."""
    keys = QueueKeys("lw", f"mail/{partition}")
    app.runtime.run(leases.beat(keys, {SESSION: True}, 60_000, 1))
    found = []
    for number, id in zip(numbers, new_ids(len(numbers)), strict=True):
        app.runtime.run(push(keys, [NewJob(id, b'1,1,,;["%b",[%d]]' % (task.encode(), number))]))
        (job,) = app.runtime.run(leases.reserve(keys, SESSION, 1, id, "")).jobs
        blob = b'{"type":"%b","message":"no %d"}' % (error.encode(), number)
        assert app.runtime.run(leases.settle(keys, SESSION, [Outcome(job.id, job.token, "d", blob)], 600_000)) == [True]
        found.append(job.id)
    return found


def a_moment_later(admin: redis.Redis) -> None:
    """Wait until the server's clock shows another millisecond."""

    def shown() -> int:
        seconds, micros = admin.time()
        return int(seconds) * 1000 + int(micros) // 1000

    now = shown()
    until(lambda: shown() > now, "a millisecond goes by")


def numbers(found: Any) -> list[int]:
    return [job.call.args[0] for job in found.jobs]


def test_dead_jobs_of_all_partitions_are_counted_and_grouped(four: Lockwork) -> None:
    dead = four.queue("mail").dead
    bury(four, 0, [1, 2])
    ids = bury(four, 3, [3])
    bury(four, 2, [4], "save", "OSError")
    bury(four, 1, [5, 6], "save", "OSError")
    assert (dead.count(), dead.count(task="save"), dead.count(text="no 3"), dead.count(older_than="1h")) == (6, 3, 1, 0)
    groups = dead.groups()
    assert [(group.count, group.task, group.error) for group in groups] == [
        (3, "save", "OSError"),
        (3, "send", "ValueError"),
    ]
    assert groups[0].example.call.args == [6], "the newest of all partitions"
    assert all(group.oldest >= group.newest == group.example.dead_for for group in groups)
    found = dead.get(ids[0])
    assert found is not None
    assert found.call.args == [3]
    assert dead.get("nobody") is None
    assert repr(dead) == "<DeadSet of queue 'mail'>"


def test_dead_job_is_retried_or_deleted_on_any_partition(four: Lockwork) -> None:
    dead = four.queue("mail").dead
    ids = [bury(four, partition, [partition])[0] for partition in range(4)]
    assert dead.retry(ids[2])
    assert not dead.retry(ids[2]), "it is not dead any more"
    assert dead.delete(ids[3])
    assert not dead.delete("nobody")
    assert [part.status().ready for part in four.queue("mail").partitions] == [0, 0, 1, 0]
    assert dead.count() == 2


def test_bulk_retry_and_delete_have_a_limit(four: Lockwork) -> None:
    dead = four.queue("mail").dead
    for partition in range(4):
        bury(four, partition, [1, 2, 3])
        bury(four, partition, [4], "save")
    assert dead.retry_all(limit=4, task="send") == 4
    assert dead.delete_all(task="save") == 4
    assert dead.delete_all(limit=5) == 5
    assert dead.retry_all() == 3
    status = four.queue("mail").status()
    assert (status.ready, status.dead, status.revived, status.forgotten) == (7, 0, 7, 9)


def pages(dead: Any, size: int, **matching: Any) -> list[list[int]]:
    """Return all pages, in order."""
    found, after = [], ""
    while True:
        page = dead.search(limit=size, after=after, **matching)
        found.append(numbers(page))
        if page.next is None:
            return found
        after = page.next


def test_pages_list_each_dead_job_once_newest_first(four: Lockwork, admin: redis.Redis) -> None:
    dead = four.queue("mail").dead
    for number in range(30):
        bury(four, (number * number) % 3, [number])  # none in the last partition, few in one
        a_moment_later(admin)  # jobs that die in the same millisecond have no fixed order
    for size in (1, 4, 7, 30, 100):
        found = pages(dead, size)
        seen = [number for page in found for number in page]
        assert seen == list(reversed(range(30)))
        assert all(len(page) == size for page in found[:-1]), "pages are full until the last"
    assert pages(dead, 5, text="no 2") == [[29, 28, 27, 26, 25], [24, 23, 22, 21, 20], [2]]
    assert pages(dead, 10, task="nothing") == [[]]


def test_deleted_and_new_dead_jobs_do_not_shift_pages(four: Lockwork, admin: redis.Redis) -> None:
    dead = four.queue("mail").dead
    for number in range(12):
        bury(four, number % 4, [number])
    first = dead.search(limit=2)  # no jobs of two partitions
    a_moment_later(admin)
    bury(four, 0, [100])
    bury(four, 3, [101])
    assert dead.delete(first.jobs[0].id)
    assert first.next is not None
    rest = pages_from(dead, first.next, 3)
    seen = numbers(first) + rest
    assert len(seen) == len(set(seen))
    assert set(seen) == set(range(12)), "the other two are newer than the first page"


def pages_from(dead: Any, after: str, size: int) -> list[int]:
    found: list[int] = []
    while True:
        page = dead.search(limit=size, after=after)
        found += numbers(page)
        if page.next is None:
            return found
        after = page.next


@pytest.mark.parametrize("after", ["x", "x 2", "W10=", "WyIiXQ==", "WyJhIiwiIiwiIiwiIl0=", "\u00e9", 5, None])
def test_wrong_pages_are_refused(four: Lockwork, after: Any) -> None:
    with pytest.raises(ConfigError, match="after is the `next` of an earlier page, not"):
        four.queue("mail").dead.search(after=after)


async def test_async_methods_of_partitioned_dead_set(url: str, admin: object) -> None:
    async with Lockwork(url, partitions={"mail": 4}) as app:
        dead = app.queue("mail").dead
        assert (await dead.acount(), await dead.agroups(), (await dead.asearch()).jobs) == (0, [], [])
        assert await dead.aget("nobody") is None
        assert not await dead.aretry("nobody")
        assert not await dead.adelete("nobody")
        assert (await dead.aretry_all(), await dead.adelete_all()) == (0, 0)
        with pytest.raises(ConfigError, match="did you mean 'task'"):
            await dead.acount(tusk="x")  # type: ignore[call-arg]
