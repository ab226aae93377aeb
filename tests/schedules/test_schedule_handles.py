"""Handles of schedules: list, pause, resume, run now; sync and async, with and without the code of the tasks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import redis

from lockwork import ConfigError, Lockwork, ServerRefused
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.schedules.schedules import Ticker


def declare(lw: Lockwork, queue: str = "default") -> None:
    """Declare the schedules of a queue, like a starting worker."""
    lw.runtime.run(Ticker(QueueKeys("lw", queue), list(lw.plans[queue].values())).turn())


def _with_schedules(lw: Lockwork) -> None:
    @lw.task(cron="0 9 * * mon-fri", tz="Europe/Berlin", overlap="skip")
    async def report() -> None: ...

    @lw.task(queue="mails")
    def send(to: str) -> None: ...

    lw.schedule(send.call("all"), every="10m", name="round")
    lw.schedule(send.call("boss"), every="10m", name="boss", misfire="skip")


def test_schedules_are_listed_with_their_next_times(lw: Lockwork, other: Lockwork) -> None:
    _with_schedules(lw)
    assert lw.schedules() == []
    declare(lw)
    declare(lw, "mails")
    report, boss, everybody = lw.schedules(count=6)
    assert (report.name, report.queue, report.task) == ("report", "default", "report")
    assert report.when == "0 9 * * mon-fri (Europe/Berlin)"
    assert [slot.hour for slot in report.next] == [9] * 6
    assert not {slot.isoweekday() for slot in report.next} & {6, 7}
    assert len({slot.date() for slot in report.next}) == 6
    assert (report.misfire, report.overlap, report.declared, report.paused) == ("once", "skip", True, False)
    assert (report.last, report.last_job) == (None, None)
    assert (report.enqueued, report.overlapped, report.missed) == (0, 0, 0)
    assert (boss.name, everybody.name, everybody.when) == ("boss", "round", "every 10 min")
    assert everybody.next[0] - datetime.now(UTC) <= timedelta(minutes=10)
    assert everybody.next[1] - everybody.next[0] == timedelta(minutes=10)
    # an app without the code lists the same schedules
    assert [each.name for each in other.schedules("mails")] == ["boss", "round"]
    assert other.schedules() == []
    assert other.schedule("round", queue="mails").inspect(6) == everybody


def test_upcoming_slots_are_computed_without_a_server() -> None:
    with Lockwork("redis://127.0.0.1:1", patience=0, partitions={"mails": 2}) as away:
        _with_schedules(away)
        friday = datetime(2026, 3, 27, 9, tzinfo=ZoneInfo("Europe/Berlin"))
        slots = away.schedule("report").upcoming(2, after=friday)
        assert [slot.isoformat() for slot in slots] == ["2026-03-30T09:00:00+02:00", "2026-03-31T09:00:00+02:00"]
        (first,) = away.schedule("round", queue="mails").upcoming(1)
        assert timedelta() < first - datetime.now(UTC) <= timedelta(minutes=10)
        before = datetime(2026, 1, 1, tzinfo=UTC) - timedelta(milliseconds=1)
        assert away.schedule("round", queue="mails").upcoming(1, after=before) == (datetime(2026, 1, 1, tzinfo=UTC),)
        assert away.schedule("report").upcoming(0) == ()


def test_upcoming_slots_are_those_of_the_server(lw: Lockwork) -> None:
    _with_schedules(lw)
    declare(lw)
    status = lw.schedule("report").inspect(5)
    assert status is not None
    assert status.next == lw.schedule("report").upcoming(5)


@pytest.mark.parametrize(
    ("name", "queue", "hint"),
    [
        ("reprot", "default", "did you mean 'report'?"),
        ("round", "default", "of queue 'default' in its code: did you mean"),
        ("nightly", "default", "import the module of its task, or read inspect"),
    ],
)
def test_schedule_of_other_code_has_no_upcoming_slots(lw: Lockwork, name: str, queue: str, hint: str) -> None:
    _with_schedules(lw)
    with pytest.raises(ConfigError) as caught:
        lw.schedule(name, queue=queue).upcoming(1)
    assert hint in str(caught.value)


@pytest.mark.parametrize("after", [datetime(2026, 1, 1), datetime(3001, 1, 1, tzinfo=UTC), "2026-01-01"])  # noqa: DTZ001
def test_upcoming_slots_need_a_usable_time(lw: Lockwork, after: Any) -> None:
    _with_schedules(lw)
    with pytest.raises(ConfigError, match="after must be a datetime with a time zone, between 1970 and 3000"):
        lw.schedule("report").upcoming(1, after=after)


def test_thousand_rare_slots_are_computed(lw: Lockwork) -> None:
    @lw.task(cron="0 0 29 2 *")
    def leap() -> None: ...

    slots = lw.schedule("leap").upcoming(1000, after=datetime(3000, 1, 1, tzinfo=UTC))
    assert (slots[0].year, len(slots)) == (3004, 1000)


@pytest.mark.parametrize("count", [-1, 1001, "3", None, True])
def test_wrong_number_of_slots_is_refused(count: Any) -> None:
    with Lockwork("redis://127.0.0.1:1", patience=0) as away:  # the error comes before a call
        handle = away.schedule("report")
        for look in (handle.inspect, handle.upcoming, lambda count: away.schedules("default", count=count)):
            with pytest.raises(ConfigError, match="count must be a whole number from 0 to 1,000"):
                look(count)


def test_run_now_enqueues_a_job_within_the_overlap_policy(lw: Lockwork, other: Lockwork) -> None:
    _with_schedules(lw)
    declare(lw)
    declare(lw, "mails")
    handle = other.schedule("round", queue="mails")
    first, second = handle.run_now(), handle.run_now()
    assert first is not None
    assert second is not None
    assert first.id != second.id
    found = first.inspect()
    assert found.schedule == "round"
    assert found.enqueued is not None
    assert abs(found.enqueued - datetime.now(UTC)) < timedelta(minutes=1)
    assert lw.queue("mails").status().ready == 2
    alone = other.schedule("report")
    assert alone.run_now() is not None
    assert alone.run_now() is None
    status = alone.inspect()
    assert status is not None
    assert status.enqueued == 1
    assert status.last is None


async def test_async_methods_of_schedule_handles(alw: Lockwork) -> None:
    _with_schedules(alw)
    await alw.runtime.arun(Ticker(QueueKeys("lw", "default"), list(alw.plans["default"].values())).turn())
    handle = alw.schedule("report")
    assert await handle.apause()
    assert await handle.apause()
    (found,) = await alw.aschedules("default")
    assert found.paused
    job = await handle.arun_now()
    assert job is not None
    assert await job.astate() == "ready"
    assert await handle.aresume()
    status = await handle.ainspect(0)
    assert status is not None
    assert not status.paused
    assert status.next == ()
    assert status.last_job == job.id


def test_undeclared_schedule_has_no_status(lw: Lockwork) -> None:
    handle = lw.schedule("ghost")
    assert handle.inspect() is None
    assert not handle.pause()
    assert not handle.resume()
    with pytest.raises(ConfigError, match="no schedule is named 'ghost'"):
        handle.run_now()


def test_unreadable_schedule_is_declared_again(lw: Lockwork, admin: redis.Redis) -> None:
    _with_schedules(lw)
    ticker = Ticker(QueueKeys("lw", "mails"), list(lw.plans["mails"].values()))
    lw.runtime.run(ticker.turn())
    key = "lw:{q:mails}:schedules"
    for garbage in (b"\xc1", b"", b"\x01", b"\x91\x01"):
        admin.hset(key, "sboss", garbage)
        assert [each.name for each in lw.schedules("mails")] == ["round"]
        declare(lw, "mails")
        assert [each.name for each in lw.schedules("mails")] == ["boss", "round"]
    admin.hset(key, "dboss", '{"task":"send","cron":"0 0 * * *","tz":"Moon/Base"}')
    boss, fine = lw.schedules("mails")
    assert "Moon/Base" in boss.when
    assert boss.next == ()
    assert fine.next


def test_schedules_key_of_another_type_raises_server_refused(lw: Lockwork, admin: redis.Redis) -> None:
    _with_schedules(lw)
    admin.set("lw:{q:mails}:schedules", "mine")
    with pytest.raises(ServerRefused):
        declare(lw, "mails")
    declare(lw)
    assert admin.get("lw:{q:mails}:schedules") == b"mine"


def test_run_now_uses_the_declared_record(lw: Lockwork) -> None:
    _with_schedules(lw)
    declare(lw, "mails")
    job = lw.schedule("boss", queue="mails").run_now()
    assert job is not None
    assert job.state() == "ready"
    with pytest.raises(ConfigError, match="count"):
        lw.schedule("boss", queue="mails").inspect(-1)
