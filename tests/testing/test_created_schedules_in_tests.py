"""Schedules that are created at run time, in the tests of an app: recorded, run, and moved through time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from lockwork import Lockwork
from lockwork.testing import record, run_all, server, worker
from processes import until

pytestmark = pytest.mark.usefixtures("only_its_apps")


@pytest.fixture
def shop() -> Iterator[Lockwork]:
    with Lockwork("redis://127.0.0.1:1", patience=0) as lw:
        yield lw


def test_created_schedule_fires_when_time_moves(shop: Lockwork) -> None:
    log = list[int]()

    @shop.task(queue="tenants")
    def report(tenant: int) -> None:
        log.append(tenant)

    with server() as local:
        shop.create_schedule(report.call(42), name="report:42", cron="0 9 * * *", misfire="all")
        local.clock.advance("3d")
        run_all()
        assert log == [42] * 3
        shop.create_schedule(report.call(7), name="once", at=local.clock.now + timedelta(hours=1))
        assert shop.schedule("report:42", queue="tenants").delete()
        local.clock.advance("2d")
        run_all()
        assert log == [42] * 3 + [7]
        assert shop.schedules("tenants") == []


def test_running_worker_fires_a_created_schedule_when_time_moves(shop: Lockwork) -> None:
    log = list[int]()

    @shop.task(queue="tenants")
    def report(tenant: int) -> None:
        log.append(tenant)

    with server() as local, worker(shop):
        shop.create_schedule(report.call(42), name="report:42", every="1d")
        local.clock.advance("1d")
        until(lambda: log == [42], "the worker fires it")


def test_recorded_schedule_is_created_on_the_server_of_run_all(shop: Lockwork) -> None:
    log = list[int]()

    @shop.task(queue="tenants")
    def report(tenant: int) -> None:
        log.append(tenant)

    with record() as recorded:
        handle = shop.create_schedule(report.call(1), name="a", every="1d", misfire="all")
        shop.create_schedule(report.call(2), name="b", every="1d")
        assert shop.schedule("b", queue="tenants").delete()
        assert not shop.schedule("b", queue="tenants").delete()
        slots = handle.upcoming(5, after=datetime(2026, 1, 1, tzinfo=UTC))
        assert [slot.day for slot in slots] == [2, 3, 4, 5, 6]
        recorded.run_all()
        assert [each.name for each in shop.schedules("tenants")] == ["a"]
        assert log == []
