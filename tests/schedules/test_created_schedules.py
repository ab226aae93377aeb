"""Schedules that are created at run time: names, changes, deletion, partitions, and the calls that workers make."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
import redis

from lockwork import ConfigError, Lockwork, Task
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.schedules.schedules import Ticker
from lockwork.schedules.options import slot_rules

_QUEUE = QueueKeys("lw", "default")


def _report(lw: Lockwork, **options: Any) -> Task[[int], Any, Any]:
    def report(tenant: int) -> None: ...

    task: Task[[int], Any, Any] = lw.task(**options)(report)
    return task


def _tick(lw: Lockwork, queue: str = "default", read: Any = slot_rules) -> float | None:
    """Fire the due schedules of a queue, as a worker does."""
    ticker = Ticker(QueueKeys(lw.config.prefix, queue), list(lw.plans.get(queue, {}).values()), read)
    pause = lw.runtime.run(ticker.turn())
    while pause is not None and pause < 0.01:
        pause = lw.runtime.run(ticker.turn())
    return pause


def _overdue(admin: redis.Redis, *names: str, keys: QueueKeys = _QUEUE) -> None:
    """Let the last slot of these schedules be due: move their cursors back by a day."""
    for name in names:
        state = msgspec.msgpack.decode(admin.hget(keys.created, f"s{name}"))  # type: ignore[arg-type]
        state[2] -= 86_400_000
        admin.hset(keys.created, f"s{name}", msgspec.msgpack.encode(state))
        admin.zadd(keys.looks, {name: 1})


def test_schedule_is_created_changed_and_deleted(lw: Lockwork, other: Lockwork) -> None:
    report = _report(lw)
    handle = lw.create_schedule(report.call(42), name="report:42", cron="0 9 * * mon-fri", tz="Europe/Berlin")
    status = handle.inspect(2)
    assert status is not None
    assert (status.name, status.task, status.when) == ("report:42", "report", "0 9 * * mon-fri (Europe/Berlin)")
    assert (status.declared, status.created, status.paused) == (True, True, False)
    assert [slot.hour for slot in status.next] == [9, 9]
    assert other.schedules("default")[0] == handle.inspect()
    assert handle.pause()
    assert repr(lw.create_schedule(report.call(43), name="report:42", every="2h")) == repr(handle)
    (changed,) = other.schedules("default")
    assert (changed.when, changed.paused) == ("every 2 h", True)
    assert other.schedule("report:42").resume()
    job = other.schedule("report:42").run_now()
    assert job is not None
    assert job.inspect().args == (43,)
    assert other.schedule("report:42").delete()
    assert not other.schedule("report:42").delete()
    assert other.schedules("default") == []


async def test_async_methods_create_and_delete(alw: Lockwork) -> None:
    handle = await alw.acreate_schedule(_report(alw).call(1), name="a", every="1h")
    assert [each.name for each in await alw.aschedules("default")] == ["a"]
    assert await handle.adelete()
    assert not await handle.adelete()


def test_schedules_of_code_and_of_run_time_have_different_names(
    lw: Lockwork, other: Lockwork, caplog: pytest.LogCaptureFixture
) -> None:
    report = _report(lw)
    lw.schedule(report.call(1), name="nightly", cron="0 3 * * *")
    with pytest.raises(ConfigError, match="'nightly' of queue 'default' is declared by code: create one with another"):
        lw.create_schedule(report.call(2), name="nightly", every="1h")
    with pytest.raises(ConfigError, match="declared by code: remove it there, or pause it"):
        lw.schedule("nightly").delete()
    _tick(lw)
    theirs = _report(other)
    with pytest.raises(ConfigError, match="declared by code"):
        other.create_schedule(theirs.call(2), name="nightly", every="1h")
    with pytest.raises(ConfigError, match="declared by code"):
        other.schedule("nightly").delete()
    # a deployment adds a line whose name is taken
    other.create_schedule(theirs.call(2), name="taken", every="1h")
    lw.schedule(report.call(1), name="taken", cron="0 4 * * *")
    _tick(lw)
    assert "schedule 'taken' of the code does not fire" in caplog.text
    assert [(each.name, each.created) for each in other.schedules("default")] == [("nightly", False), ("taken", True)]
    assert lw.schedule("taken").delete()
    _tick(lw)
    assert [each.created for each in other.schedules("default")] == [False, False]


def test_same_name_in_two_tenants_and_two_queues(app_url: str, admin: redis.Redis) -> None:
    """rq-scheduler and celery-redbeat keep all entries of a server under one key unless told otherwise."""
    with Lockwork(app_url, prefix="t1") as one, Lockwork(app_url, prefix="t2") as two:
        for lw, tenant in ((one, 1), (two, 2)):
            lw.create_schedule(_report(lw).call(tenant), name="r", every="1h")
        _overdue(admin, "r", keys=QueueKeys("t1", "default"))
        _tick(one)
        _tick(two)
        assert [one.queue().status().ready, two.queue().status().ready] == [1, 0]
        assert one.schedule("r").delete()
        assert [len(one.schedules()), len(two.schedules())] == [0, 1]
        assert two.schedule("r").delete()


@pytest.mark.parametrize("name", ["report:42", "a@b", "Zürich/5", "x" * 150, "%2C", "[a]*?"])
def test_names_with_signs(lw: Lockwork, admin: redis.Redis, name: str) -> None:
    handle = lw.create_schedule(_report(lw).call(1), name=name, every="1h")
    _overdue(admin, name)
    _tick(lw)
    (found,) = lw.schedules()
    assert found.name == name
    assert found.last_job is not None
    assert lw.job(found.last_job).inspect().schedule == name
    assert handle.delete()


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("a b", {"every": "1h"}, "without white space"),
        ("x" * 151, {"every": "1h"}, "at most 150 characters"),
        ("a", {}, "cron= or every= or at=, one of them"),
        ("a", {"every": "1h", "cron": "@daily"}, "cron= or every= or at=, one of them"),
        ("a", {"at": datetime(2020, 1, 1, tzinfo=UTC)}, "would never fire: at= is in the past"),
        ("a", {"at": datetime(2099, 1, 1)}, "a datetime with a time zone"),  # noqa: DTZ001
        ("a", {"every": "1h", "when": 1}, "a schedule has no option"),
        ("a", {"every": "1h", "tz": "UTC"}, "tz= is the time zone of a cron line"),
        ("a", {"cron": "0 0 * * fri#6"}, "fri#2 for the second Friday"),
    ],
)
def test_wrong_schedules_are_refused(lw: Lockwork, name: str, options: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        lw.create_schedule(_report(lw).call(1), name=name, **options)
    assert lw.schedules() == []


def test_at_is_not_for_code(lw: Lockwork) -> None:
    call = _report(lw).call(1)
    with pytest.raises(ConfigError, match=re.escape("use lw.create_schedule(..., at=...)")):
        lw.schedule(call, name="a", at=datetime(2099, 1, 1, tzinfo=UTC))  # type: ignore[call-overload]
    with pytest.raises(ConfigError, match=r"needs a call of a task, such as send.call\(42\)"):
        lw.create_schedule("a", name="a", every=5)  # type: ignore[arg-type]


def test_calls_of_a_worker(lw: Lockwork, admin: redis.Redis, count_calls: Callable[[], int]) -> None:
    """A turn reads only due schedules, also beside 10,000 others; without any, it makes one call."""
    report = _report(lw)
    ticker = Ticker(_QUEUE, [], slot_rules)
    lw.runtime.run(ticker.turn())
    before = count_calls()
    assert lw.runtime.run(ticker.turn()) is None
    assert count_calls() - before == 1
    with admin.pipeline(transaction=False) as pipe:
        lw.create_schedule(report.call(1), name="s", cron="0 0 1 1 *")
        definition, record, state = admin.hmget(_QUEUE.created, ["ds", "rs", "ss"])
        for number in range(10_000):
            pipe.hset(_QUEUE.created, mapping={f"ds{number}": definition, f"rs{number}": record, f"ss{number}": state})  # type: ignore[dict-item]
            pipe.zadd(_QUEUE.looks, {f"s{number}": 9e14})
            pipe.zadd(_QUEUE.created_names, {f"s{number}": 0})
        pipe.execute()
    while (pause := lw.runtime.run(ticker.turn())) is not None and pause < 0.01:
        pass
    ticker.look()
    before = count_calls()
    pause = lw.runtime.run(ticker.turn())
    assert count_calls() - before == 1
    assert pause is not None
    assert pause > 10
    assert len(lw.schedules()) == 10_001
    assert [each.name for each in lw.schedules(limit=2)] == ["s", "s0"]
    # all are due at once, for two workers
    admin.zadd(_QUEUE.looks, {f"s{number}": 1 for number in range(10_000)})
    _overdue_all = {f"ss{number}": _back(state) for number in range(10_000)}
    admin.hset(_QUEUE.created, mapping=_overdue_all)  # type: ignore[arg-type]
    before = count_calls()
    tickers = [ticker, Ticker(_QUEUE, [], slot_rules)]
    for each in tickers:
        each.look()
    pauses: list[float | None] = [0.0, 0.0]
    while any(pause is not None and pause < 0.01 for pause in pauses):
        pauses = [lw.runtime.run(each.turn()) for each in tickers]
    assert count_calls() - before < 200
    assert lw.queue().status().ready == 10_000


def _back(state: Any) -> bytes:
    fields = msgspec.msgpack.decode(state)
    fields[2] -= 400 * 86_400_000
    return msgspec.msgpack.encode(fields)


@pytest.fixture
def count_calls(admin: redis.Redis) -> Callable[[], int]:
    def counted() -> int:
        stats = admin.info("commandstats")
        return sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("evalsha", "eval", "fcall"))

    return counted


def test_unreadable_definition_is_left_to_other_workers(lw: Lockwork, admin: redis.Redis) -> None:
    """A later version may have cron signs and fields that this one does not know."""
    report = _report(lw)
    lw.create_schedule(report.call(1), name="new", every="1h")
    lw.create_schedule(report.call(2), name="old", every="1h")
    for definition in ('{"task":"report","cron":"0 0 * * fri##"}', '{"task":"report","every":3600000,"jitter":5}', "x"):
        admin.hset(_QUEUE.created, "dnew", definition)
        _overdue(admin, "new", "old")
        _tick(lw)
        assert admin.zscore(_QUEUE.looks, "new") == 1, "it stays due"
    status = lw.schedule("old").inspect()
    assert status is not None
    assert status.enqueued == 3
    assert [each.name for each in lw.schedules()] == ["new", "old"]
    admin.hset(_QUEUE.created, "dnew", '{"task":"report","every":3600000}')
    _tick(lw)
    new = lw.schedule("new").inspect()
    assert new is not None
    assert new.enqueued == 1


def test_partitions(app_url: str, admin: redis.Redis) -> None:
    with Lockwork(app_url, partitions={"mail": 4}) as lw:
        send = _report(lw, queue="mail")
        handles = [lw.create_schedule(send.call(n), name=f"s{n}", every="1h") for n in range(8)]
        assert len({handle.queue for handle in handles}) > 1
        for handle in handles:
            assert lw.schedule(handle.name, queue="mail").queue == handle.queue
            _overdue(admin, handle.name, keys=QueueKeys("lw", handle.queue))
            _tick(lw, handle.queue)
        assert lw.queue("mail").status().ready == 8
        assert len(lw.schedules("mail")) == 8
        assert all(handle.delete() for handle in handles)

        @lw.task(queue="mail", key="{user}")
        def keyed(user: int) -> None: ...

        with pytest.raises(ConfigError, match="has partitions, and the key or group of this call"):
            lw.create_schedule(keyed.call(1), name="k", every="1h")


def test_late_lines_of_code_warn(lw: Lockwork, caplog: pytest.LogCaptureFixture, tmp_path: Any) -> None:
    caplog.set_level(logging.WARNING)
    report = _report(lw)
    lw.schedule(report.call(1), name="early", every="1h")
    lw.queue().status()  # opens the server
    code = "app.schedule(report.call(1), name='imported', every='1h')"
    exec(compile(code, "module.py", "exec"), {"__name__": "module", "app": lw, "report": report})
    assert not caplog.records
    lw.schedule(report.call(1), name="late", every="1h")
    (record,) = caplog.records
    assert "declared 'late' in a process that is no worker" in record.getMessage()
    assert "create_schedule" in record.getMessage()
    lw.plans.served = True
    lw.schedule(report.call(1), name="in-a-worker", every="1h")
    assert len(caplog.records) == 1


def test_moment_fires_once_and_is_deleted(lw: Lockwork, admin: redis.Redis) -> None:
    at = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    lw.create_schedule(_report(lw).call(1), name="once", at=at)
    status = lw.schedule("once").inspect(5)
    assert status is not None
    assert status.next == (at,)
    _tick(lw)
    assert lw.queue().status().ready == 0
    _overdue(admin, "once")
    assert lw.schedule("once").inspect() is not None
