"""--burst and --once: the worker ends when its work is done, and not before."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from app_modules import Load
from history import History
from processes import started, worker

IGNORING = """
import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execv(sys.executable, [sys.executable, "-m", "lockwork", *sys.argv[1:]])
"""


@pytest.mark.parametrize("processes", ["1", "3"])
def test_a_burst_does_all_that_is_ready(shift: Any, own_url: str, apps: Path, history: History, processes: str) -> None:
    shift.mark.enqueue_many([(history.path, number) for number in range(500)])
    later = shift.mark.options(delay="10m").enqueue(history.path, 1000)
    with worker("shift:lw", "--burst", "-c", "7", "-p", processes, url=own_url, folder=apps) as process:
        assert process.wait() == 0
        assert sorted(line["number"] for line in history.lines("ran")) == list(range(500))
        assert later.state() == "scheduled"
        status = shift.lw.queue().status()
        assert (status.succeeded, status.running, status.recovered) == (500, 0, 0)
        assert shift.lw.queue().workers() == []


def test_a_burst_waits_for_jobs_that_its_jobs_enqueue(shift: Any, own_url: str, apps: Path, history: History) -> None:
    shift.breeds.enqueue(history.path, 20)
    with worker("shift:lw", "--burst", url=own_url, folder=apps) as process:
        assert process.wait() == 0
    assert [line["number"] for line in history.lines("ran")] == list(range(20, -1, -1))


def test_a_burst_waits_for_retries_that_are_due_at_once(shift: Any, own_url: str, apps: Path, history: History) -> None:
    job = shift.fails_twice.enqueue(history.path)
    with worker("shift:lw", "--burst", url=own_url, folder=apps) as process:
        assert process.wait() == 0
    assert job.state() == "succeeded"


def test_a_burst_trims_dead_jobs(load: Load, own_url: str, apps: Path) -> None:
    """No worker may come for a long time: the last of their deaths, too, is within the bounds."""
    module: Any = load(own_url, "bounded")
    with module.lw as lw:
        module.fails.enqueue_many((number,) for number in range(60))
        with worker("bounded:lw", "--burst", url=own_url, folder=apps) as process:
            assert process.wait() == 0
        status = lw.queue().status()
        assert (status.dead, status.ready, status.running) == (10, 0, 0)


def test_a_burst_without_jobs(shift: Any, own_url: str, apps: Path) -> None:
    with worker("shift:lw", "--burst", url=own_url, folder=apps) as process:
        assert process.wait() == 0
        assert shift.lw.queue().workers() == []


def test_a_burst_replaces_a_process_that_dies(shift: Any, own_url: str, apps: Path, history: History) -> None:
    job = shift.kills_its_process_once.enqueue(history.path)
    with worker("shift:lw", "--burst", url=own_url, folder=apps) as process:
        assert process.wait() == 0
    assert job.state() == "succeeded"
    assert [line["attempt"] for line in history.lines("ran")] == [1, 2]


def test_once_is_one_job(shift: Any, own_url: str, apps: Path, history: History) -> None:
    shift.mark.enqueue_many([(history.path, number) for number in range(5)])
    for done in (1, 2):
        with worker("shift:lw", "--once", url=own_url, folder=apps) as process:
            assert process.wait() == 0
        assert [line["number"] for line in history.lines("ran")] == list(range(done))
    assert shift.lw.queue().status().ready == 3


def test_once_waits_for_its_job_unless_it_is_a_burst_too(
    shift: Any, own_url: str, apps: Path, history: History
) -> None:
    with worker("shift:lw", "--once", "--burst", url=own_url, folder=apps) as process:
        assert process.wait() == 0
    with worker("shift:lw", "--once", url=own_url, folder=apps) as process:
        shift.mark.enqueue(history.path)
        assert process.wait() == 0
    assert len(history.lines("ran")) == 1


def test_a_burst_ends_when_its_processes_cannot_start(own_url: str, apps: Path, tmp_path: Path) -> None:
    """It works in the supervisor's environment only, so each child fails; nobody would notice a worker that goes on."""
    (tmp_path / "fragile.py").write_text(
        "import sys\nfrom lockwork import Lockwork\n"
        "lw = Lockwork()\n"
        "@lw.task\ndef nothing() -> None: ...\n"
        "if 'lockwork.worker.process.main' in sys.modules['__main__'].__spec__.name:\n"
        "    raise RuntimeError('not here')\n"
    )
    with worker("fragile:lw", "--burst", url=own_url, folder=tmp_path) as process:
        assert process.wait() == 1
        assert "cannot be started" in process.errors
        assert "RuntimeError: not here" in process.errors


def test_once_is_one_job_even_where_processes_are_replaced(
    shift: Any, own_url: str, apps: Path, history: History
) -> None:
    shift.mark.enqueue_many([(history.path, number) for number in range(5)])
    with worker("shift:lw", "--once", "--max-jobs", "1", url=own_url, folder=apps) as process:
        assert process.wait() == 0
    assert [line["number"] for line in history.lines("ran")] == [0]


@pytest.mark.parametrize("by", ["who starts it", "the app"])
def test_it_ends_where_deaths_are_ignored(
    shift: Any, own_url: str, apps: Path, history: History, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With SIGCHLD ignored, the system says nothing of how a process ended."""
    if by == "the app":
        monkeypatch.setenv("SHIFT_IGNORES_DEATHS", "1")
    program = ["-c", IGNORING] if by == "who starts it" else ["-m", "lockwork"]
    shift.mark.enqueue_many([(history.path, number) for number in range(3)])
    for option, done in (("--once", 1), ("--burst", 3)):
        with started([sys.executable, *program, "worker", "shift:lw", option], url=own_url, folder=apps) as process:
            assert process.wait() == 0
            assert "returned to the queue" not in process.errors
        assert [line["number"] for line in history.lines("ran")] == list(range(done))
    with started([sys.executable, *program, "worker", "shift:lw"], url=own_url, folder=apps):
        assert shift.ends_a_program.enqueue().result(30) == -signal.SIGTERM
