"""A unique name has one job at a time: effects of further calls, and the end of the name."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis

from lockwork import Lockwork, ServerRefused
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.scripts import script
from processes import until
from proxy import Phase, Proxy

KEYS = QueueKeys("lw", "default")


def waiting(app: Lockwork) -> int:
    status = app.queue().status()
    return status.ready + status.scheduled


def names(admin: redis.Redis) -> list[str]:
    fields: Any = admin.hkeys(KEYS.groups)
    return sorted(name.decode()[2:] for name in fields if name.startswith(b"u "))


def report(app: Lockwork, **options: Any) -> Any:
    """Register a unique task."""

    registered: Any = app.task(**{"unique": "report:{user}", **options})

    def report(user: int, version: int = 1) -> int:
        return version

    return registered(report)


def calls(app: Lockwork) -> list[list[Any] | None]:
    return [job.call.args for place in ("ready", "scheduled") for job in app.queue().peek(place=place)]


# -- effects of further calls -----------------------------------------------------------------------------------------


def test_second_call_returns_the_waiting_job(lw: Lockwork) -> None:
    task = report(lw)
    first, other, again = task.enqueue(1), task.enqueue(2), task.enqueue(1, version=2)
    assert (first.new, other.new, again.new) == (True, True, False)
    assert (again.id, again.arrival) == (first.id, "kept")
    assert waiting(lw) == 2
    assert calls(lw) == [[1], [2]]


def test_unique_name_contains_all_arguments(lw: Lockwork) -> None:
    """Positional arguments, keyword arguments and defaults make the same name."""
    task = report(lw, unique=True)
    first = task.enqueue(1, 1)
    assert [task.enqueue(*args).id == first.id for args in ((1,), (1, 1), (1, 2), (2,))] == [True, True, False, False]
    assert task.enqueue(user=1).id == first.id
    assert task.enqueue(version=1, user=1).id == first.id

    @lw.task(unique=True)
    def other(user: int, options: dict[str, int]) -> None: ...

    assert other.enqueue(1, {"a": 1, "b": 2}).id == other.enqueue(1, {"b": 2, "a": 1}).id


def test_tasks_do_not_share_unique_names(lw: Lockwork) -> None:
    """Otherwise, a job of one task could replace a job of another task."""

    @lw.task(unique="user:{user}")
    def one(user: int) -> None: ...

    @lw.task(unique="user:{user}")
    def two(user: int) -> None: ...

    assert one.enqueue(1).new
    assert two.enqueue(1).new
    assert one.options(priority="high").enqueue(1).new is False


def test_waiting_job_is_replaced_by_the_last_call(lw: Lockwork) -> None:
    task = report(lw, on_duplicate="replace")
    first = task.options(delay="1h").enqueue(1)
    due = first.inspect().due
    again = task.options(tags=["late"]).enqueue(1, 2)
    assert (again.id, again.arrival) == (first.id, "replaced")
    view = first.inspect()
    assert (view.due, view.tags) == (due, ("late",))
    moved = task.options(delay="2h").enqueue(1, 3)
    assert (moved.id, moved.arrival) == (first.id, "moved")
    assert first.inspect().due - due >= timedelta(minutes=59)
    assert waiting(lw) == 1
    task.options(at=datetime.now(UTC)).enqueue(1, 4)
    until(lambda: [job.call.args for job in lw.queue().peek()] == [[1, 4]], "it is due")
    assert lw.queue().peek(place="scheduled") == []


def test_debounced_job_is_postponed_by_further_calls(lw: Lockwork) -> None:
    task = report(lw, debounce="1h", debounce_max="90m")
    first = task.enqueue(1)
    dues = [first.inspect().due]
    for version in (2, 3):
        again = task.enqueue(1, version)
        assert (again.id, again.arrival) == (first.id, "moved")
        dues.append(first.inspect().due)
    assert all(later >= sooner for sooner, later in itertools.pairwise(dues))
    assert calls(lw) == [[1, 3]]
    limited = report(lw, name="limited", debounce="1h", debounce_max="1h")
    job = limited.enqueue(1)
    due = job.inspect().due
    limited.enqueue(1)
    assert job.inspect().due == due, "debounce_max counts from the first call"


def test_unique_options_can_be_set_for_one_call(lw: Lockwork) -> None:
    task = report(lw)
    first = task.enqueue(1)
    assert task.options(unique=None).enqueue(1).new
    assert task.options(unique="other:{user}").enqueue(1).new
    assert task.options(on_duplicate="replace", unique_until="done").enqueue(1, 2).arrival == "replaced"
    assert task.options(delay="1h").enqueue(1).id == first.id
    assert waiting(lw) == 3


def test_enqueue_many_finds_duplicates(lw: Lockwork) -> None:
    """Also within one call, and beyond the size of one round trip."""
    task = report(lw)
    jobs = task.enqueue_many([(number % 700,) for number in range(1400)])
    assert Counter(job.new for job in jobs) == {True: 700, False: 700}
    assert [job.id for job in jobs[:700]] == [job.id for job in jobs[700:]]
    assert waiting(lw) == 700


async def test_concurrent_calls_enqueue_one_job(alw: Lockwork) -> None:
    """RQ #719: a check before the enqueue is a race; here one script does both."""
    task = report(alw)
    jobs = await asyncio.gather(*(task.aenqueue(1) for _ in range(50)))
    assert Counter(job.new for job in jobs) == {True: 1, False: 49}
    assert len({job.id for job in jobs}) == 1
    others = await task.aenqueue_many([(2,), (2,)])
    assert [job.new for job in others] == [True, False]


@pytest.mark.parametrize("phase", ["request", "reply"])
def test_resent_unique_call_is_new(lw: Lockwork, proxy: Proxy, phase: Phase) -> None:
    with Lockwork(proxy.url) as app:
        task = report(app)
        task.enqueue(0)
        proxy.lose(script("queue/push_unique").sha, phase)
        job = task.enqueue(1)
        proxy.lose(script("queue/push_unique").sha, phase)
        again = task.enqueue(1)
        assert (job.new, again.new, again.id) == (True, False, job.id)
        assert waiting(lw) == 2


# -- end of the name --------------------------------------------------------------------------------------------------


def test_unique_name_is_free_when_its_job_has_ended(lw: Lockwork, admin: redis.Redis) -> None:
    task = report(lw)
    first = task.enqueue(1)
    assert names(admin) == ["report/report:1"]
    assert first.cancel()
    assert names(admin) == []
    second = task.enqueue(1)
    assert second.new
    assert lw.queue().clear() == 1
    assert names(admin) == []
    assert task.enqueue(1).new


def test_unique_name_with_a_duration_outlives_its_job(lw: Lockwork, admin: redis.Redis) -> None:
    """The server deletes the name after that time."""
    task = report(lw, unique_until="1s")
    first = task.enqueue(1)
    assert first.cancel()
    assert task.enqueue(1).id == first.id
    assert all(0 < admin.pttl(key) <= 61_000 for key in (KEYS.unique, KEYS.unique_ends))
    again: Any = until(lambda: job if (job := task.enqueue(1)).new else None, "the time is over")
    assert again.id != first.id
    longer = task.options(unique_until="1h").enqueue(2)
    assert all(admin.pttl(key) > 3_600_000 for key in (KEYS.unique, KEYS.unique_ends))
    until(lambda: task.enqueue(1).new, "the time is over again")
    assert task.enqueue(2).id == longer.id
    assert admin.zcard(KEYS.unique_ends) == 2


def test_expired_job_releases_its_unique_name(lw: Lockwork, admin: redis.Redis) -> None:
    """An overdue job releases its name too, because it will not run."""
    task = report(lw, expires="20ms")
    first = task.enqueue(1)
    later: Any = until(lambda: job if (job := task.options(expires=None).enqueue(1)).new else None, "it is overdue")
    assert first.state() == "expired"
    until(lambda: first.inspect().state == "expired", "it is ended")
    assert names(admin) == ["report/report:1"], "the name of the later job"
    assert task.enqueue(1).id == later.id


def test_job_without_record_releases_its_unique_name(lw: Lockwork, admin: redis.Redis) -> None:
    task = report(lw)
    first = task.enqueue(1)
    admin.hdel(KEYS.jobs, first.id)
    assert task.enqueue(1).new


def test_retried_job_takes_its_unique_name_again(lw: Lockwork) -> None:
    task = report(lw)
    first = task.enqueue(1)
    first.cancel()
    assert first.retry()
    assert task.enqueue(1).id == first.id
    first.cancel()
    second = task.enqueue(1)
    assert not first.retry(), "another job has the name"
    assert first.state() == "cancelled"
    second.cancel()
    assert first.retry()


@pytest.mark.parametrize(
    "key", [KEYS.groups, KEYS.group_queue, KEYS.due, KEYS.job_notes, KEYS.expiry, KEYS.unique, KEYS.unique_ends]
)
def test_unique_enqueue_with_foreign_key_changes_nothing(lw: Lockwork, admin: redis.Redis, key: str) -> None:
    task = report(lw, unique_until="1h", on_duplicate="replace", expires="1h")
    task.enqueue(1)
    admin.delete(key)
    admin.set(key, "text", ex=100)
    before = {name: admin.dump(name) for name in admin.scan_iter(match="lw:{q:*")}
    for user in (1, 2):
        with pytest.raises(ServerRefused, match="data of another program"):
            task.enqueue(user)
    assert {name: admin.dump(name) for name in admin.scan_iter(match="lw:{q:*")} == before
    admin.delete(key)


def test_job_handle_made_from_an_id_is_not_new(lw: Lockwork) -> None:
    job = report(lw).enqueue(1)
    assert job.new
    assert not lw.job(job.id).new
