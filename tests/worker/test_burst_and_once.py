"""--burst and --once: the worker ends when its work is done."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from history import History
from processes import started, worker

IGNORING = """
import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execv(sys.executable, [sys.executable, "-m", "lockwork", *sys.argv[1:]])
"""


@pytest.mark.parametrize("processes", ["1", "3"])
def test_burst_runs_all_ready_jobs(shift: Any, own_url: str, apps: Path, history: History, processes: str) -> None:
    shift.mark.enqueue_many([(history.path, number) for number in range(500)])
    later = shift.mark.options(delay="10m").enqueue(history.path, 1000)
    with worker("shift:lw", "--burst", "-c", "7", "-p", processes, url=own_url, folder=apps) as process:
        assert process.wait() == 0
        assert sorted(line["number"] for line in history.lines("ran")) == list(range(500))
        assert later.state() == "scheduled"
        status = shift.lw.queue().status()
        assert (status.succeeded, status.running, status.recovered) == (500, 0, 0)
        assert shift.lw.queue().workers() == []


def test_burst_waits_for_jobs_that_its_jobs_enqueue(shift: Any, own_url: str, apps: Path, history: History) -> None:
    shift.breeds.enqueue(history.path, 20)
    with worker("shift:lw", "--burst", url=own_url, folder=apps) as process:
        assert process.wait() == 0
    assert [line["number"] for line in history.lines("ran")] == list(range(20, -1, -1))


def test_burst_waits_for_immediate_retries(shift: Any, own_url: str, apps: Path, history: History) -> None:
    job = shift.fails_twice.enqueue(history.path)
    with worker("shift:lw", "--burst", url=own_url, folder=apps) as process:
        assert process.wait() == 0
    assert job.state() == "succeeded"


def test_burst_trims_dead_jobs_before_it_ends(shift: Any, own_url: str, apps: Path) -> None:
    with shift.bounded as lw:
        shift.fails.enqueue_many((number,) for number in range(60))
        with worker("shift:bounded", "--burst", url=own_url, folder=apps) as process:
            assert process.wait() == 0
        status = lw.queue().status()
        assert (status.dead, status.ready, status.running) == (10, 0, 0)


def test_burst_ends_without_jobs(shift: Any, own_url: str, apps: Path) -> None:
    with worker("shift:lw", "--burst", url=own_url, folder=apps) as process:
        assert process.wait() == 0
        assert shift.lw.queue().workers() == []


def test_burst_replaces_killed_process(shift: Any, own_url: str, apps: Path, history: History) -> None:
    job = shift.kills_its_process_once.enqueue(history.path)
    with worker("shift:lw", "--burst", url=own_url, folder=apps) as process:
        assert process.wait() == 0
    assert job.state() == "succeeded"
    assert [line["attempt"] for line in history.lines("ran")] == [1, 2]


def test_once_runs_one_job(shift: Any, own_url: str, apps: Path, history: History) -> None:
    shift.mark.enqueue_many([(history.path, number) for number in range(5)])
    for done in (1, 2):
        with worker("shift:lw", "--once", url=own_url, folder=apps) as process:
            assert process.wait() == 0
        assert [line["number"] for line in history.lines("ran")] == list(range(done))
    assert shift.lw.queue().status().ready == 3


def test_once_waits_for_its_job_without_burst(shift: Any, own_url: str, apps: Path, history: History) -> None:
    with worker("shift:lw", "--once", "--burst", url=own_url, folder=apps) as process:
        assert process.wait() == 0
    with worker("shift:lw", "--once", url=own_url, folder=apps) as process:
        shift.mark.enqueue(history.path)
        assert process.wait() == 0
    assert len(history.lines("ran")) == 1


def test_burst_ends_when_its_processes_fail_to_start(own_url: str, apps: Path, tmp_path: Path) -> None:
    """The app can be imported by the supervisor only, so each worker process exits."""
    (tmp_path / "fragile.py").write_text(
        "import os\nimport sys\nfrom lockwork import Lockwork\n"
        "lw = Lockwork()\n"
        "@lw.task\ndef nothing() -> None: ...\n"
        "if 'lockwork.worker.process.main' in sys.modules['__main__'].__spec__.name:\n"
        "    os._exit(9)\n"
    )
    with worker("fragile:lw", "--burst", url=own_url, folder=tmp_path) as process:
        assert process.wait() == 1
        assert "cannot be started" in process.errors


def test_once_with_max_jobs_runs_one_job(shift: Any, own_url: str, apps: Path, history: History) -> None:
    shift.mark.enqueue_many([(history.path, number) for number in range(5)])
    with worker("shift:lw", "--once", "--max-jobs", "1", url=own_url, folder=apps) as process:
        assert process.wait() == 0
    assert [line["number"] for line in history.lines("ran")] == [0]


@pytest.mark.parametrize("by", ["who starts it", "the app"])
def test_worker_ends_when_sigchld_is_ignored(
    shift: Any, own_url: str, apps: Path, history: History, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With SIGCHLD ignored, the exit status of a process is unknown."""
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
