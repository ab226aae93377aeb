"""Tickers in virtual time: slots that pass without a ticker, and the number of calls to the server."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from lockwork.protocol.effects import Call
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import record_header
from lockwork.protocol.schedules import schedules
from lockwork.protocol.schedules.schedules import SchedulePlan, Ticker, slot_id
from lockwork.schedules.options import ScheduleRules, ScheduleSettings
from lockwork.tasks.call import TaskCall
from models.bench import SECOND, Bench
from simulator.server import Build, Server

_QUEUE = QueueKeys("sim", "a")
_NINE = int(datetime(2026, 11, 21, 9, tzinfo=UTC).timestamp()) * SECOND


class _Counting(Bench):
    """Counts calls to the server."""

    calls = 0

    def call(self, call: Call, *, later: int = 1) -> Any:
        self.calls += 1
        return super().call(call, later=later)


def _plan(name: str = "s", **options: Any) -> SchedulePlan:
    chosen: ScheduleSettings = {**options}  # type: ignore[typeddict-item]
    return ScheduleRules.read(chosen).plan(name, TaskCall("a", b'1,4,,;["x",[]]', 0))


@pytest.fixture
def bench(simulated: Server) -> _Counting:
    made = _Counting(simulated, Build())
    made.now = _NINE
    return made


def _jobs(bench: Bench) -> list[str]:
    found = [id.decode() for id in bench._server.command("LRANGE", _QUEUE.ready[1], 0, -1)]
    assert len(set(found)) == len(found)
    return found


def _go(bench: Bench, until: int, *tickers: Ticker) -> None:
    """Let the tickers take their turns until this time."""
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


def _at(*times: str) -> list[str]:
    return [f"s@2026-11-21T{time}Z" for time in times]


def test_tickers_enqueue_each_slot_once(bench: _Counting) -> None:
    plan = _plan(cron="*/2 * * * *")
    _go(bench, _NINE + 361 * SECOND, *(Ticker(_QUEUE, [plan]) for _ in range(3)))
    assert _jobs(bench) == _at("09:02:00", "09:04:00", "09:06:00")


def test_new_schedule_has_no_missed_slots(bench: _Counting) -> None:
    bench.now += 30 * SECOND
    ticker = Ticker(_QUEUE, [_plan(cron="0 9 * * *", misfire="all")])
    _go(bench, bench.now + 3600 * SECOND, ticker)
    assert _jobs(bench) == []


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, ["09:40:00"]),
        ({"misfire": "once"}, ["09:40:00"]),
        ({"misfire": "skip", "grace": "4m"}, []),
        ({"misfire": "skip", "grace": "6m"}, ["09:40:00"]),
        ({"misfire": "all"}, ["09:10:00", "09:20:00", "09:30:00", "09:40:00"]),
        ({"misfire": "all", "catch_up": 2}, ["09:30:00", "09:40:00"]),
        ({"misfire": "all", "overlap": "skip"}, ["09:10:00"]),
    ],
)
def test_missed_slots_when_no_ticker_ran(bench: _Counting, options: dict[str, Any], wanted: list[str]) -> None:
    """streaq#152: a long overdue cron job runs after a restart, outside its window."""
    plan = _plan(cron="*/10 * * * *", **options)
    _go(bench, _NINE + SECOND, Ticker(_QUEUE, [plan]))
    bench.now = _NINE + 45 * 60 * SECOND
    _go(bench, bench.now + 10 * SECOND, Ticker(_QUEUE, [plan]), Ticker(_QUEUE, [plan]))
    assert _jobs(bench) == _at(*wanted)
    _, (known,) = bench.run(schedules.listed(_QUEUE))
    assert known.missed == (0 if plan.rules.overlap is False else 4 - len(wanted))


def test_slots_during_a_pause_are_not_missed(bench: _Counting) -> None:
    plan = _plan(cron="*/10 * * * *")
    _go(bench, _NINE + SECOND, Ticker(_QUEUE, [plan]))
    bench.run(schedules.pause(_QUEUE, "s", paused=True))
    bench.now += 3600 * SECOND
    _go(bench, bench.now + SECOND, Ticker(_QUEUE, [plan]))
    _, (known,) = bench.run(schedules.listed(_QUEUE))
    assert (known.missed, _jobs(bench)) == (0, [])


def test_catch_up_of_a_year_of_seconds_is_bounded(bench: _Counting) -> None:
    plan = _plan(every="1s", misfire="all", catch_up=1000)
    _go(bench, _NINE, Ticker(_QUEUE, [plan]))
    bench.now += 366 * 86_400 * SECOND
    begun = bench.calls
    bench.run(Ticker(_QUEUE, [plan]).turn())
    assert len(_jobs(bench)) == 1000
    assert bench.calls - begun == 2
    _, (known,) = bench.run(schedules.listed(_QUEUE))
    assert known.missed == schedules.MOST_MISSED, "the count is bounded"


def test_clock_step_back_does_not_repeat_a_slot(bench: _Counting) -> None:
    ticker = Ticker(_QUEUE, [_plan(cron="* * * * *", misfire="all")])
    _go(bench, _NINE + 130 * SECOND, ticker)
    bench.now -= 90 * SECOND
    for _ in range(30):
        bench.run(Ticker(_QUEUE, [_plan(cron="* * * * *", misfire="all")]).turn())
        bench.now += 10 * SECOND
    assert _jobs(bench) == _at(*(f"09:0{minute}:00" for minute in range(1, 6)))


def test_schedules_are_declared_again_after_data_loss(bench: _Counting) -> None:
    ticker = Ticker(_QUEUE, [_plan(cron="* * * * *")])
    _go(bench, _NINE + 70 * SECOND, ticker)
    bench._server.command("FLUSHDB")
    _go(bench, _NINE + 190 * SECOND, ticker)
    assert _jobs(bench) == _at("09:02:00", "09:03:00")


@pytest.mark.parametrize("lost", [101, 119])
def test_slot_after_a_loss_of_data_is_enqueued_at_its_time(bench: _Counting, lost: int) -> None:
    """The ticker declares its schedules every 20 s, but the slot is earlier."""
    tickers = [Ticker(_QUEUE, [_plan(cron="* * * * *")]) for _ in range(2)]
    _go(bench, _NINE + lost * SECOND, *tickers)
    bench._server.command("FLUSHDB")
    _go(bench, _NINE + 120 * SECOND + 100_000, *tickers)
    assert _jobs(bench) == _at("09:02:00")
    _go(bench, _NINE + 190 * SECOND, *tickers)
    assert _jobs(bench) == _at("09:02:00", "09:03:00")


@pytest.mark.parametrize(("misfire", "expected"), [("all", ["09:02:00", "09:03:00"]), ("once", ["09:03:00"])])
def test_slots_of_an_outage_with_loss_of_data_follow_misfire(
    bench: _Counting, misfire: str, expected: list[str]
) -> None:
    ticker = Ticker(_QUEUE, [_plan(cron="* * * * *", misfire=misfire)])
    _go(bench, _NINE + 70 * SECOND, ticker)
    bench._server.command("FLUSHDB")
    bench.now = _NINE + 190 * SECOND
    _go(bench, bench.now + SECOND, ticker)
    assert _jobs(bench) == _at(*expected)


def test_schedule_that_was_declared_again_on_request_is_listed(bench: _Counting) -> None:
    ticker = Ticker(_QUEUE, [_plan(cron="0 12 * * *")])
    _go(bench, _NINE + SECOND, ticker)
    bench._server.command("FLUSHDB")
    ticker.forget()
    bench.run(ticker.turn())
    _, (known,) = bench.run(schedules.listed(_QUEUE))
    assert known.name == "s"


def test_hundreds_of_schedules_fire_at_one_time(bench: _Counting) -> None:
    plans = [_plan(f"s{number}", cron="0 * * * *") for number in range(250)]
    _go(bench, _NINE + 1 * SECOND, Ticker(_QUEUE, plans))
    begun = bench.calls
    _go(bench, _NINE + 3601 * SECOND, Ticker(_QUEUE, plans))
    found = _jobs(bench)
    assert found == [slot_id(f"s{number}", (_NINE // SECOND + 3600) * 1000) for number in range(250)]
    assert bench.calls - begun < 3 * 3600 / 20 + 20


def test_between_slots_a_ticker_only_sends_heartbeats(bench: _Counting) -> None:
    _go(bench, _NINE + 3600 * SECOND, Ticker(_QUEUE, [_plan(cron="30 9 * * *")]))
    assert bench.calls <= 3600 / 20 + 3
    assert _jobs(bench) == _at("09:30:00")


def test_without_schedules_a_ticker_sends_one_call(bench: _Counting) -> None:
    _go(bench, _NINE + 3600 * SECOND, Ticker(_QUEUE, []))
    assert bench.calls == 1
    assert bench._server.command("DBSIZE") == 0


def test_call_with_lost_reply_enqueues_a_slot_once(bench: _Counting) -> None:
    ticker = Ticker(_QUEUE, [_plan(cron="* * * * *", misfire="all")])
    bench.run(ticker.turn(), twice=True)
    for _ in range(20):
        bench.now += 10 * SECOND
        bench.run(ticker.turn(), twice=True)
    assert _jobs(bench) == _at("09:01:00", "09:02:00", "09:03:00")


def test_slot_in_the_repeated_hour_is_enqueued_once(bench: _Counting) -> None:
    bench.now = int(datetime(2026, 10, 24, 23, tzinfo=UTC).timestamp()) * SECOND
    ticker = Ticker(
        _QUEUE, [_plan(cron="30 2 * * *", tz="Europe/Berlin"), _plan("t", cron="30 * * * *", tz="Europe/Berlin")]
    )
    _go(bench, bench.now + 3 * 3600 * SECOND, ticker)
    assert _jobs(bench) == [
        "t@2026-10-24T23:30:00Z",
        "s@2026-10-25T00:30:00Z",
        "t@2026-10-25T00:30:00Z",
        "t@2026-10-25T01:30:00Z",
    ]


def test_resent_run_now_is_the_same_run_after_a_slot(bench: _Counting) -> None:
    ticker = Ticker(_QUEUE, [_plan(cron="*/2 * * * *")])
    _go(bench, _NINE + 100 * SECOND, ticker)
    run = partial(schedules.run_now, _QUEUE, "s", "s@by-hand")
    assert bench.run(run(overlap=True)) == (1, "s@by-hand")
    _go(bench, _NINE + 121 * SECOND, ticker)
    for overlap in (True, False):
        assert bench.run(run(overlap=overlap)) == (1, "s@by-hand")
    _, known = bench.run(schedules.known(_QUEUE, "s"))
    assert known is not None
    assert (known.job, known.enqueued) == (_at("09:02:00")[0], 2)
    assert _jobs(bench) == ["s@by-hand", *_at("09:02:00")]


def test_late_job_of_a_schedule_has_its_whole_retry_time(bench: _Counting) -> None:
    """Its id has the time of its slot, which may be long past."""
    plan = ScheduleRules.read({"cron": "*/10 * * * *"}).plan("s", TaskCall("a", b'1,4///60000,,;["x",[]]', 0))
    _go(bench, _NINE + SECOND, Ticker(_QUEUE, [plan]))
    bench.now = _NINE + 45 * 60 * SECOND
    _go(bench, bench.now + 10 * SECOND, Ticker(_QUEUE, [plan]))
    (id,) = _jobs(bench)
    record = bench._server.command("HGET", _QUEUE.jobs, id)
    limit = record_header.retry_until(record, id)
    assert limit is not None
    assert 0 <= limit - (_NINE // 1000 + 46 * 60_000) <= 10_000
