"""A worker whose server loses its data, by FLUSHALL or a restart without persistence, continues within seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from app_modules import Load
from history import History
from lockwork.worker.execution import queue_client
from lockwork.worker.supervisor import heartbeat
from mortal_servers import MortalServer
from processes import until, worker

SOON = 5.0
TIMED = """
from pathlib import Path
from lockwork import Lockwork
lw = Lockwork()
@lw.task(every="2s", keep_result=False)
async def tick() -> None:
    with open("ticks", "a") as file:
        file.write("x")
@lw.task(every="1h", keep_result=False)
async def hourly() -> None: ...
"""


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[MortalServer]:
    with MortalServer(tmp_path / "mortal") as server:
        yield server


def flush(server: MortalServer) -> None:
    with redis.Redis.from_url(server.url) as client:
        client.flushall()


def restart(server: MortalServer) -> None:
    server.kill()
    server.start(empty=True)


LOSSES = pytest.mark.parametrize("lose", [flush, restart])


@LOSSES
@pytest.mark.timeout(120)
def test_idle_processes_continue_without_being_replaced(
    mortal: MortalServer, load: Load, apps: Path, history: History, lose: Callable[[MortalServer], None]
) -> None:
    app: Any = load(mortal.url, "shift")
    with app.lw, worker("shift:lw", "-p", "2", "--lease", "6s", url=mortal.url, folder=apps) as process:
        app.mark_a.enqueue(history.path)
        history.wait(1)
        until(lambda: app.lw.queue("a").status().succeeded, "the outcome is stored")
        until(lambda: len(process.children()) == 2, "both processes are there")
        children = set(process.children())
        for count in (1, 2):
            lose(mortal)
            lost = time.monotonic()
            app.mark_a.enqueue(history.path)
            app.mark_b.enqueue(history.path)
            history.wait(1 + 2 * count)
            assert time.monotonic() - lost < SOON
            for queue in "ab":
                until(lambda: app.lw.queue(queue).status().succeeded, "the outcome is stored")  # noqa: B023
            until(lambda: len(app.lw.workers()) == 1, "it is announced")
        assert set(process.children()) == children
        assert "is killed and replaced" not in process.errors


def test_supervisor_waits_longer_than_a_process_needs_to_join_again() -> None:
    """The supervisor killed an idle process during the pause after a rejoin."""
    assert heartbeat._REJOIN > 2 * queue_client._REJOIN


@pytest.mark.timeout(120)
def test_process_with_a_running_job_is_replaced(
    mortal: MortalServer, load: Load, apps: Path, history: History, tmp_path: Path
) -> None:
    """The server counts the job as lost, so another process may run it."""
    app: Any = load(mortal.url, "shift")
    with app.lw, worker("shift:lw", "--lease", "2s", url=mortal.url, folder=apps) as process:
        app.gated_a.enqueue(history.path, str(tmp_path / "gate"))
        (first,) = history.wait(1)
        until(lambda: [job for found in app.lw.workers() for job in found.jobs], "the supervisor knows that it runs")
        flush(mortal)
        until(lambda: first["pid"] not in process.children(), "its process is gone")
        app.mark_b.enqueue(history.path)  # not before: the process may join its idle queue again until it is killed
        assert history.wait(2)[1]["pid"] != first["pid"]


@LOSSES
@pytest.mark.timeout(120)
def test_schedules_continue_at_their_next_slot(
    mortal: MortalServer, load: Load, tmp_path: Path, lose: Callable[[MortalServer], None]
) -> None:
    (tmp_path / "timed.py").write_text(TIMED)
    ticks = tmp_path / "ticks"
    with worker("timed:lw", "--lease", "6s", url=mortal.url, folder=tmp_path) as process:
        until(lambda: ticks.exists() and ticks.stat().st_size, "the schedule runs")
        count = ticks.stat().st_size
        lose(mortal)
        lost = time.monotonic()
        until(lambda: ticks.stat().st_size > count, "it runs again")
        assert time.monotonic() - lost < SOON
        from lockwork import Lockwork

        with Lockwork(mortal.url) as lw:
            until(lambda: len(lw.schedules("default")) == 2, "the other schedule is declared as well")
            assert time.monotonic() - lost < SOON
        assert "is killed and replaced" not in process.errors
