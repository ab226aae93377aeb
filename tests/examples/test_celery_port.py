"""The port of a Celery application: all ten tasks run on Lockwork, each as its Celery version is used."""

from __future__ import annotations

import ast
import os
import signal
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from lockwork import Lockwork
from lockwork.errors import JobCancelled, JobFailed
from processes import Started, until, worker

FOLDER = Path(__file__).parents[2] / "examples" / "celery_port"
MODULES = ("after", "services", "crm")
PATIENCE = 60


@pytest.fixture
def port(own_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The ported module, as a producer."""
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setenv("LOCKWORK_URL", own_url)
    module: Any = import_module("after")
    with module.lw:
        yield module
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.fixture
def working(port: Any, own_url: str) -> Iterator[Started]:
    """A worker of the ported module."""
    with worker("after", url=own_url, folder=FOLDER) as process:
        yield process


def names(file: str, decorator: str) -> list[str]:
    """Return the tasks of a module, without importing it."""
    tree = ast.parse((FOLDER / file).read_text())
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return [each.name for each in functions if any(decorator in ast.unparse(one) for one in each.decorator_list)]


def test_port_has_the_same_ten_tasks_and_functions() -> None:
    before, after = names("before.py", "app.task"), names("after.py", "lw.task")
    assert before == after
    assert len(after) == 10
    functions = [
        [node.name for node in ast.parse((FOLDER / file).read_text()).body if isinstance(node, ast.FunctionDef)]
        for file in ("before.py", "after.py")
    ]
    assert functions[0] == functions[1]


@pytest.mark.usefixtures("working")
def test_chain_retries_and_passes_its_result(port: Any) -> None:
    assert port.ship("A1", "near").result(PATIENCE) == "A1 to 4:1"
    flow = port.ship("A2", "far away")
    assert flow.result(PATIENCE) == "A2 to 8:1", "after a retry"


@pytest.mark.usefixtures("working")
def test_chord_and_rate_limit(port: Any) -> None:
    assert port.cheapest(3.0).result(PATIENCE) == "snail"
    began = time.monotonic()
    port.lw.gather(port.quote.enqueue_many([("snail", 1.0)] * 25), timeout=PATIENCE)
    assert time.monotonic() - began > 1, "25 jobs at 10 a second, after a burst of at most 10"


@pytest.mark.usefixtures("working")
def test_eta_countdown_and_revoke(port: Any) -> None:
    soon = port.remind_at("A1", datetime.now(UTC) + timedelta(seconds=0.2))
    delayed = port.remind_in("A2", 0.2)
    late = port.remind_in("A3", 3600)
    assert late.state() == "scheduled"
    assert port.picked_up(late.id)
    with pytest.raises(JobCancelled):
        late.result(PATIENCE)
    assert [soon.result(PATIENCE), delayed.result(PATIENCE)] == ["A1 waits for you", "A2 waits for you"]


def test_periodic_task(port: Any, working: Started) -> None:
    (schedule,) = until(lambda: port.lw.schedules("parcels"), "the worker declares it")
    assert (schedule.name, schedule.when) == ("sweep", "0 3 * * * (Europe/Berlin)")
    job = port.lw.schedule("sweep", queue="parcels").run_now()
    assert job is not None
    until(lambda: job.state() == "succeeded", "the sweep has run")


@pytest.mark.usefixtures("working")
def test_callbacks_of_success_and_failure(port: Any) -> None:
    paid = port.pay("ada", 9.5)
    assert paid.result(PATIENCE) == "payment of 9.50 by ada"
    _, receipt, alert = port.lw.flow(id=paid.id, queue="parcels").jobs()
    assert receipt.result(PATIENCE) == "thank you for the payment of 9.50 by ada"
    assert alert.state() == "skipped"
    refused = port.pay("broke", 9.5)
    with pytest.raises(JobFailed):
        refused.result(PATIENCE)
    _, receipt, alert = port.lw.flow(id=refused.id, queue="parcels").jobs()
    assert alert.result(PATIENCE).startswith("broke could not be billed: ")
    assert receipt.state() == "cancelled"


def test_report_by_id_survives_the_death_of_its_worker(port: Any, working: Started) -> None:
    id = port.start_report(60)
    job = port.report.job(id)
    assert job.queue == "reports"
    until(lambda: job.progress(), "the report has begun")
    (child,) = working.children()
    os.kill(child, signal.SIGKILL)
    assert port.report_result(id) == sum(day % 7 for day in range(60))
    assert job.attempts() == 2


def test_task_of_another_program_by_name(port: Any, own_url: str) -> None:
    with worker("crm", url=own_url, folder=FOLDER), Lockwork(own_url, prefix="parcels") as lw:
        until(lw.apps, "the worker announces its app")
        assert port.tell_crm("A1").result(PATIENCE) == "A1 is shipped"
        with pytest.raises(TypeError):
            lw.remote_task("crm.note").enqueue("A1")
