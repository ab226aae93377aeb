"""Created schedules in virtual time: clock changes, changes while a slot is due, and reported bugs of peers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.schedules import created, schedules
from lockwork.protocol.schedules.schedules import Ticker
from lockwork.schedules.options import CreatedScheduleSettings, ScheduleRules, slot_rules
from lockwork.tasks.call import TaskCall
from models.bench import SECOND, Bench
from simulator.server import Build, Server

_QUEUE = QueueKeys("sim", "a")


def _time(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * SECOND


@pytest.fixture
def bench(simulated: Server) -> Bench:
    made = Bench(simulated, Build())
    made.now = _time("2026-11-21T09:00:00")
    return made


def _create(bench: Bench, name: str = "s", body: str = "x", **options: Any) -> int:
    chosen: CreatedScheduleSettings = {**options}  # type: ignore[typeddict-item]
    call = TaskCall("a", f'1,4,,;["{body}",[]]'.encode(), 0)
    plan = ScheduleRules.read(chosen, created=True).plan(name, call)
    return bench.run(created.create(_QUEUE, name, plan.digest, plan.timing, plan.definition, plan.record, plan.begin))


def _ticker() -> Ticker:
    return Ticker(_QUEUE, [], slot_rules)


def _go(bench: Bench, seconds: float, *tickers: Ticker) -> None:
    """Let the tickers take their turns for some seconds."""
    until = bench.now + int(seconds * SECOND)
    for ticker in tickers:
        ticker.look()
    turns = dict.fromkeys(tickers, bench.now)
    while turns and min(turns.values()) <= until:
        ticker = min(turns, key=turns.__getitem__)
        bench.now = max(bench.now, turns[ticker])
        pause = bench.run(ticker.turn())
        if pause is None:
            del turns[ticker]
        else:
            turns[ticker] = bench.now + int(pause * SECOND) + 1
    bench.now = max(bench.now, until)


def _jobs(bench: Bench) -> list[str]:
    found = bench.list(_QUEUE.ready[1])
    assert len(set(found)) == len(found)
    return found


@pytest.mark.parametrize(
    ("begin", "days", "line", "expected"),
    [
        ("2026-03-28T12:00:00", 2, "30 2 * * *", ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]),
        ("2026-10-24T12:00:00", 2, "30 2 * * *", ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]),
        ("2026-03-07T20:00:00", 2, "4 16 * * *", ["2026-03-08T15:04:00Z", "2026-03-09T15:04:00Z"]),
    ],
)
def test_days_of_daylight_saving(bench: Bench, begin: str, days: int, line: str, expected: list[str]) -> None:
    """django-celery-beat#134, #194: jobs run an hour off on the day of the change; celery#6438: beat stops sending."""
    bench.now = _time(begin)
    zone = "Europe/Berlin" if "16" not in line else "Europe/Paris"
    _create(bench, cron=line, tz=zone)
    _go(bench, days * 86_400, _ticker(), _ticker())
    assert _jobs(bench) == [f"s@{slot}" for slot in expected]


def test_changed_interval_is_in_force_at_once(bench: Bench) -> None:
    """bullmq#3539, django-celery-beat#7: the old interval must end before a change takes effect."""
    ticker = _ticker()
    _create(bench, every=3600)
    _go(bench, 10, ticker)
    assert _create(bench, every=2) == 2
    _go(bench, 4.5, ticker)
    assert _jobs(bench) == [f"s@2026-11-21T09:00:{second}Z" for second in (12, 14)]


def test_changes_in_quick_succession_make_one_schedule(bench: Bench) -> None:
    """bullmq#2988: each upsert adds another delayed job."""
    for period in (2, 3, 5, 2, 3) * 4:
        _create(bench, every=period)
    _go(bench, 9.5, _ticker(), _ticker())
    assert _jobs(bench) == [f"s@2026-11-21T09:00:0{second}Z" for second in (3, 6, 9)]


def test_interval_that_changes_while_a_slot_is_due(bench: Bench) -> None:
    """redbeat#221: after an update the schedule stops running."""
    ticker = _ticker()
    _create(bench, every=60)
    _go(bench, 1, ticker)
    bench.now += 90 * SECOND  # no worker ran: the slot of 09:01 is due
    _create(bench, every=7)
    _go(bench, 10, ticker)
    assert _jobs(bench) == ["s@2026-11-21T09:01:36Z"], "a slot of the old interval is dropped"
    _create(bench, body="y", every=7)
    bench.now += 6 * SECOND
    _go(bench, 2, ticker)
    assert len(_jobs(bench)) > 1, "a change of the call keeps the slots"


def test_deleted_and_created_again(bench: Bench) -> None:
    """bullmq#3063: after a removal and an upsert in the same interval, the schedule never runs again."""
    ticker = _ticker()
    _create(bench, every=180)
    _go(bench, 181, ticker)
    assert len(_jobs(bench)) == 1
    for _ in range(3):
        assert bench.run(created.delete(_QUEUE, "s")) == 1
        _create(bench, every=180)
    _go(bench, 180, ticker)
    assert _jobs(bench) == ["s@2026-11-21T09:03:00Z", "s@2026-11-21T09:06:00Z"]


@pytest.mark.parametrize("again", [False, True])
def test_deletion_while_a_worker_fires(bench: Bench, again: bool) -> None:
    """redisson#1869: a cancelled task is inserted again by the worker that runs it."""
    ticker = _ticker()
    _create(bench, every=60)
    _go(bench, 1, ticker)
    bench.now += 60 * SECOND
    ticker.look()
    turn = ticker.turn()
    reply: Any = None
    while True:  # until the worker has read the due slot, and sends it
        effect = turn.send(reply)
        script = getattr(effect, "script", None)
        if script is not None and script.name == "schedules/fire":
            break
        reply = bench.call(effect) if script is not None else bench.now / SECOND  # type: ignore[arg-type]
    assert bench.run(created.delete(_QUEUE, "s")) == 1
    if again:
        _create(bench, every=60)
    bench.call(effect)  # type: ignore[arg-type]
    assert _jobs(bench) == []
    assert len(bench.run(schedules.listed(_QUEUE))[1]) == int(again)


def test_clock_that_is_set_forward_and_back(bench: Bench) -> None:
    ticker = _ticker()
    _create(bench, every=60)
    _go(bench, 61, ticker)
    bench.now += 3 * 3600 * SECOND
    _go(bench, 61, ticker)
    forward = _jobs(bench)
    assert len(forward) in (2, 3)
    bench.now -= 3 * 3600 * SECOND
    _go(bench, 600, ticker, _ticker())
    assert _jobs(bench) == forward, "it continues when the clock reaches its cursor"
    bench.now += 3 * 3600 * SECOND
    _go(bench, 61, ticker)
    assert len(_jobs(bench)) > len(forward)


def test_moment_by_a_creator_whose_clock_is_behind(bench: Bench) -> None:
    past = datetime.fromtimestamp(bench.now / SECOND - 30, UTC)
    _create(bench, at=past)
    _go(bench, 1, _ticker(), _ticker())
    assert _jobs(bench) == ["s@2026-11-21T08:59:30Z"]
    _create(bench, at=past)  # the call was sent again
    _go(bench, 1, _ticker())
    assert len(_jobs(bench)) == 1
    assert bench._server.command("EXISTS", _QUEUE.created, _QUEUE.looks, _QUEUE.created_names) == 0


def test_paused_moment_passes(bench: Bench) -> None:
    _create(bench, at=datetime.fromtimestamp(bench.now / SECOND + 5, UTC))
    bench.run(schedules.pause(_QUEUE, "s", paused=True))
    _go(bench, 60, _ticker())
    bench.run(schedules.pause(_QUEUE, "s", paused=False))
    _go(bench, 1, _ticker())
    assert _jobs(bench) == []
    assert bench.run(schedules.listed(_QUEUE))[1] == []


def test_slow_job_does_not_end_its_schedule(bench: Bench) -> None:
    """redisson#1734: a cron task that takes longer than its period never runs again."""
    _create(bench, every=10, overlap="skip")
    ticker = _ticker()
    _go(bench, 41, ticker)
    assert _jobs(bench) == ["s@2026-11-21T09:00:10Z"]
    bench._server.command("HDEL", _QUEUE.jobs, "s@2026-11-21T09:00:10Z")
    bench._server.command("LPOP", _QUEUE.ready[1])
    _go(bench, 10, ticker)
    assert _jobs(bench) == ["s@2026-11-21T09:00:50Z"]


def test_ticker_ends_when_the_last_schedule_is_deleted(bench: Bench) -> None:
    """redisbeat#17: when the last schedule is removed, all come back."""
    ticker = _ticker()
    _create(bench, every=60)
    _go(bench, 61, ticker)
    bench.run(created.delete(_QUEUE, "s"))
    _go(bench, 60, ticker)
    assert bench.run(ticker.turn()) is None
    assert len(_jobs(bench)) == 1
