"""A process that enqueues announces its app, so that the command line and the dashboard know its tasks."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from clients import client_of
from commandstats import script_calls
from indexed import listed
from lockwork import Lockwork
from lockwork.runtime.clock import now
from lockwork.tasks import announcing
from lockwork.tasks import task as tasks
from lockwork.worker import loading

SHOP = """
from lockwork import Lockwork

lw = Lockwork(partitions={"orders": 3})

@lw.task(queue="orders", hide_arguments=True)
def pay(card): ...

if __name__ == "__main__":
    pay.enqueue("4111")
"""


@pytest.fixture
def shop(own_url: str) -> Iterator[Lockwork]:
    with Lockwork(own_url, app_name="shop") as lw:
        lw.task(name="order")(print)
        yield lw


@pytest.mark.parametrize("words", [["shop.py"], ["-m", "shop"], ["-c", "import shop; shop.pay.enqueue('4111')"]])
def test_script_is_announced_under_its_import_path(own_url: str, tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    subprocess.run([sys.executable, *words], cwd=tmp_path, env={"LOCKWORK_URL": own_url}, check=True)
    with Lockwork(own_url) as lw:
        (app,) = lw.apps()
    assert (app.name, app.partitions) == ("shop:lw", {"orders": 3})
    (task,) = app.tasks
    assert (task.name, task.queue, task.parameters, task.hidden) == ("pay", "orders", ["card"], True)


def test_producer_is_announced_once_an_hour(
    shop: Lockwork, own_url: str, admin: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    task: Any = shop.registry.get("order")
    task.enqueue(1)
    assert [app.name for app in shop.apps()] == ["shop"]
    with client_of(own_url) as own:
        listed(own, "default", kind="queues")
    before = script_calls(admin)
    task.enqueue(2)
    task.enqueue_many([(3,), (4,)])
    assert script_calls(admin) == before + 2
    monkeypatch.setattr(tasks, "now", lambda: now() + announcing.EVERY)
    first = shop.apps()[0].seen
    task.enqueue(5)
    assert shop.apps()[0].seen > first


@pytest.mark.parametrize("how", ["flow", "reservation"])
def test_flows_and_reservations_announce_the_app(own_url: str, how: str) -> None:
    with Lockwork(own_url, app_name=how) as lw:
        task: Any = lw.task(name="order", queue="mail")(print)
        if how == "flow":
            lw.chain(task.call(1)).enqueue()
        else:
            lw.stock("phone", 3, queue="mail").reserve("ada", hold="1m", enqueue=task.call(1))
        assert [app.name for app in lw.apps()] == [how]


async def test_async_enqueue_announces_the_app(own_url: str) -> None:
    async with Lockwork(own_url, app_name="shop") as lw:
        task: Any = lw.task(name="order")(print)
        await task.aenqueue(1)
        assert [app.name for app in await lw.aapps()] == ["shop"]
        assert (await lw.aapps())[0].tasks[0].name == "order"


def test_app_outside_of_a_module_is_not_announced(own_url: str) -> None:
    with Lockwork(own_url) as lw:
        lw.task(name="order")(print).enqueue(1)
        assert lw.apps() == []


def test_worker_process_does_not_announce_the_app(
    own_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kiosk.py").write_text(SHOP)
    monkeypatch.setenv("LOCKWORK_URL", own_url)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    try:
        with loading.load("kiosk:lw") as lw:
            lw.registry.get("pay").enqueue("4111")
            assert lw.apps() == []
    finally:
        sys.modules.pop("kiosk", None)


def test_without_the_right_to_announce_jobs_are_enqueued(
    own_url: str, admin: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "lockwork")
    admin.acl_setuser("old", enabled=True, nopass=True, keys=["lw:{q:*"], channels=["lw:wake:*"], commands=["+@all"])
    try:
        url = own_url.replace("unix://", "unix://old:x@")
        with Lockwork(url, app_name="shop") as lw, Lockwork(own_url) as reader:
            task: Any = lw.task(name="order")(print)
            task.enqueue(1)
            task.enqueue(2)
            assert lw.queue().status().ready == 2
            assert reader.apps() == []
    finally:
        admin.acl_deluser("old")
    warnings = [record.getMessage() for record in caplog.records if "announced" in record.getMessage()]
    assert len(warnings) == 1
    assert warnings[0].startswith("this app could not be announced on the server: ")
