"""Jobs that damage their process fail, and at worst end the process; the worker continues."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app_modules import load_app
from history import History
from lockwork import JobFailed
from lockwork.worker.environment import LOOPS
from processes import alive, started, until, worker


@pytest.fixture
def unruly(own_url: str, apps: Path) -> Iterator[Any]:
    """The app's tasks, without a worker."""
    module = load_app(apps, "unruly", own_url)
    with module.lw:
        yield module


def test_signals_to_the_worker_do_not_reach_programs_of_jobs(unruly: Any, own_url: str, apps: Path) -> None:
    """The program reads an empty standard input, not the worker process's messages."""
    with worker("unruly:lw", "--grace", "10m", url=own_url, folder=apps) as process:
        job = unruly.starts_a_program_that_reads.enqueue()
        until(lambda: unruly.lw.queue().status().ready == 0, "it runs")
        process.send(signal.SIGTERM)
        assert process.wait() == 0
        assert list(job.result(5)) == [0, "''"]


@pytest.mark.parametrize("task", ["ends_its_copies", "ends_copies_of_its_runner"])
@pytest.mark.parametrize("loop", LOOPS)
def test_forked_copies_can_be_terminated(unruly: Any, own_url: str, apps: Path, loop: str, task: str) -> None:
    """Worker processes ignore signals; multiprocessing would wait forever for copies that ignore them too."""
    with worker("unruly:lw", "--loop", loop, url=own_url, folder=apps):
        job = getattr(unruly, task).enqueue()
        assert job.result(60) == [-signal.SIGTERM] * 10


@pytest.mark.parametrize("status", [0, 1, 3, 4])
def test_job_that_ends_its_process_is_dead_after_three_crashes(
    unruly: Any, own_url: str, apps: Path, history: History, status: int
) -> None:
    """No exit status counts as an orderly exit or as a failed start."""
    job = unruly.exits.enqueue(history.path, status)
    with worker("unruly:lw", "--burst", url=own_url, folder=apps) as process:
        assert process.wait() == 0
        assert "failed to start" not in process.errors
    assert [line["attempt"] for line in history.lines("ran")] == [1, 2, 3]
    assert job.state() == "dead"


def test_output_of_a_job_is_not_lost(unruly: Any, own_url: str, apps: Path) -> None:
    unruly.prints.enqueue("printed by a job")
    # PYTHONUNBUFFERED of the tests disables buffering
    command = ["env", "-u", "PYTHONUNBUFFERED", sys.executable, "-m", "lockwork", "worker", "unruly:lw", "--burst"]
    with started(command, url=own_url, folder=apps) as process:
        assert process.line() == "printed by a job"
        assert process.wait() == 0


def test_job_that_finishes_after_its_cancellation_succeeds(
    unruly: Any, own_url: str, apps: Path, history: History
) -> None:
    with worker("unruly:lw", "--grace", "0", url=own_url, folder=apps) as process:
        job = unruly.finishes_all_the_same.enqueue(history.path)
        history.wait(1)
        process.send(signal.SIGTERM)
        assert process.wait() == 0
        assert job.result(5) == "finished"
        assert "did not end in time" not in process.errors


def test_job_that_fails_on_cancellation_is_returned_uncounted(
    unruly: Any, own_url: str, apps: Path, history: History
) -> None:
    """Libraries and clean-ups turn a cancellation into other errors; the dead set must not receive such jobs."""
    with worker("unruly:lw", "--grace", "0", url=own_url, folder=apps) as process:
        unruly.fails_when_cancelled.enqueue(history.path)
        history.wait(1)
        process.send(signal.SIGTERM)
        assert process.wait() == 0
        status = unruly.lw.queue().status()
        assert (status.ready, status.failed, status.dead, status.recovered) == (1, 0, 0, 0)


def test_job_that_kills_its_supervisor_is_dead_after_three_crashes(
    unruly: Any, own_url: str, apps: Path, history: History
) -> None:
    """The process outlives the supervisor for a moment, and must not return the job uncounted."""
    job = unruly.kills_its_supervisor.enqueue(history.path)
    for attempt in (1, 2, 3):
        with worker("unruly:lw", "--lease", "10m", url=own_url, folder=apps) as process:
            assert process.wait() == -signal.SIGKILL
            (line,) = history.wait(attempt)[attempt - 1 :]
            assert line["attempt"] == attempt
            until(lambda: unruly.lw.queue().status().running == 0, "the session has ended, long before its lease")
    assert job.state() == "dead"
    assert unruly.lw.queue().workers() == []


def test_job_that_blocks_the_event_loop_does_not_outlive_its_supervisor(
    unruly: Any, own_url: str, apps: Path, history: History
) -> None:
    with worker("unruly:lw", url=own_url, folder=apps) as process:
        unruly.blocks_the_loop.enqueue(history.path)
        history.wait(1)
        (child,) = process.children()
        process.send(signal.SIGKILL)
        until(lambda: not alive(child), "it is gone")


def test_abandoned_thread_of_a_job_does_not_block_the_exit(unruly: Any, own_url: str, apps: Path) -> None:
    """Closing an event loop waits for the threads of its executor."""
    job = unruly.leaves_a_thread.enqueue()
    with worker("unruly:lw", "--burst", url=own_url, folder=apps) as process:
        assert process.wait() == 0
    assert job.state() == "succeeded"


def test_system_exit_in_background_ends_process_despite_threads(
    unruly: Any, own_url: str, apps: Path, history: History
) -> None:
    """Otherwise, the process would do nothing, and the supervisor would renew the leases of its jobs."""
    with worker("unruly:lw", "--grace", "0", url=own_url, folder=apps):
        unruly.holds_a_thread.enqueue(history.path)
        history.wait(1)
        job = unruly.exits_in_the_background.enqueue(history.path)
        assert job.result(30) == 2
        assert unruly.lw.queue().status().failed == 0


def test_backoff_function_that_raises_system_exit_ends_no_process(
    unruly: Any, own_url: str, apps: Path, history: History
) -> None:
    job = unruly.fails_without_a_pause.enqueue(history.path)
    with worker("unruly:lw", url=own_url, folder=apps) as process:
        until(lambda: job.state() == "dead", "it has failed for good")
        assert "ended (" not in process.errors
    first, second = history.lines("ran")
    assert (first["attempt"], second["attempt"]) == (1, 2)
    assert first["pid"] == second["pid"]


def test_error_that_cannot_be_formatted_is_still_an_outcome(unruly: Any, own_url: str, apps: Path) -> None:
    with worker("unruly:lw", url=own_url, folder=apps) as process:
        job = unruly.fails_shyly.enqueue()
        with pytest.raises(JobFailed, match="RuntimeError: do not look"):
            job.result(20)
        process.send(signal.SIGTERM)
        assert process.wait() == 0
        assert "has ended, but goes to the dead set, for: RuntimeError: do not look" in process.errors


@pytest.mark.parametrize(("task", "places"), [("cancels_itself_and_goes_on", 1), ("cancels_itself_at_its_end", 2)])
def test_job_that_cancels_itself_cancels_no_other(
    unruly: Any, own_url: str, apps: Path, history: History, monkeypatch: pytest.MonkeyPatch, task: str, places: int
) -> None:
    """The next job runs in the same slot; its clean-ups run when it ends."""
    monkeypatch.setenv("CLEANED", history.path)
    getattr(unruly, task).enqueue(history.path)
    job = unruly.waits_in_a_group.enqueue()
    getattr(unruly, task).enqueue(history.path)
    unruly.raises_what_cancels.enqueue(history.path)
    with worker("unruly:lw", "-c", str(places), "--burst", url=own_url, folder=apps) as process:
        assert process.wait() == 0
    assert job.result(5) == "waited"
    assert [line["event"] for line in history.lines()] == ["ran", "ran", "ran", "cleaned up"]


BLOCKERS = """
import asyncio, time
from pathlib import Path
from lockwork import Lockwork

lw = Lockwork()


def blocks(gate: str) -> None:
    while not Path(gate).exists():
        time.sleep(0.01)


@lw.task
async def blocking(gate: str) -> None:
    blocks(gate)


@lw.task
def in_a_thread(gate: str) -> None:
    blocks(gate)


@lw.task
async def waiting(gate: str) -> None:
    while not Path(gate).exists():
        await asyncio.sleep(0.01)
"""


def test_job_that_blocks_the_event_loop_is_logged(own_url: str, tmp_path: Path) -> None:
    (tmp_path / "blockers.py").write_text(BLOCKERS)
    app: Any = load_app(tmp_path, "blockers", own_url)
    gates = [str(tmp_path / name) for name in ("one", "other", "third")]
    with app.lw, worker("blockers:lw", url=own_url, folder=tmp_path) as process:
        jobs = [app.in_a_thread.enqueue(gates[0]), app.waiting.enqueue(gates[1])]
        until(lambda: app.lw.queue().status().running == 2, "they run")
        blocking = app.blocking.enqueue(gates[2])
        warning = f"job {blocking.id} of task 'blocking' has blocked the event loop for more than 1 s at"
        until(lambda: warning in process.errors, "it is named while it blocks")
        assert f"{warning} {tmp_path}/blockers.py, line 11, in blocks: other jobs" in process.errors
        for gate in gates:
            Path(gate).touch()
        for job in [blocking, *jobs]:
            job.result(30)
        until(lambda: "the event loop continues after a block of " in process.errors, "the end of the block is logged")
        assert process.errors.count("has blocked the event loop") == 1
        assert not [line for line in process.errors.splitlines() if "blocked" in line and jobs[0].id in line]
