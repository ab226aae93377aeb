"""What jobs do to their process ends them, and at worst their process, but never the worker's grip on it."""

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
    """The app's tasks; nobody works there yet."""
    module = load_app(apps, "unruly", own_url)
    with module.lw:
        yield module


def test_signals_to_the_worker_do_not_reach_a_jobs_program(unruly: Any, own_url: str, apps: Path) -> None:
    """It finds an empty standard input, and not the line on which the worker process is told to stop."""
    with worker("unruly:lw", "--grace", "10m", url=own_url, folder=apps) as process:
        job = unruly.starts_a_program_that_reads.enqueue()
        until(lambda: unruly.lw.queue().status().ready == 0, "it runs")
        process.send(signal.SIGTERM)
        assert process.wait() == 0
        assert list(job.result(5)) == [0, "''"]


@pytest.mark.parametrize("task", ["ends_its_copies", "ends_copies_of_its_runner"])
@pytest.mark.parametrize("loop", LOOPS)
def test_copies_that_a_job_forks_can_be_ended(unruly: Any, own_url: str, apps: Path, loop: str, task: str) -> None:
    """The process itself minds no signal, and else multiprocessing would wait for its copies for ever."""
    with worker("unruly:lw", "--loop", loop, url=own_url, folder=apps):
        job = getattr(unruly, task).enqueue()
        assert job.result(60) == [-signal.SIGTERM] * 10


@pytest.mark.parametrize("status", [0, 1, 3, 4])
def test_job_that_ends_its_process_is_dead_after_three_crashes(
    unruly: Any, own_url: str, apps: Path, history: History, status: int
) -> None:
    """Whatever status it leaves: it is not taken for a process that ended as it was told to, or never came to work."""
    job = unruly.exits.enqueue(history.path, status)
    with worker("unruly:lw", "--burst", url=own_url, folder=apps) as process:
        assert process.wait() == 0
        assert "failed to start" not in process.errors
    assert [line["attempt"] for line in history.lines("ran")] == [1, 2, 3]
    assert job.state() == "dead"


def test_output_of_a_job_is_not_lost(unruly: Any, own_url: str, apps: Path) -> None:
    unruly.prints.enqueue("printed by a job")
    # the tests' own processes write everything at once, others do not
    command = ["env", "-u", "PYTHONUNBUFFERED", sys.executable, "-m", "lockwork", "worker", "unruly:lw", "--burst"]
    with started(command, url=own_url, folder=apps) as process:
        assert process.line() == "printed by a job"
        assert process.wait() == 0


def test_a_job_that_finishes_after_its_cancellation_blocks_no_other(
    unruly: Any, own_url: str, apps: Path, history: History
) -> None:
    with worker("unruly:lw", "--grace", "0", url=own_url, folder=apps) as process:
        job = unruly.finishes_all_the_same.enqueue(history.path)
        history.wait(1)
        process.send(signal.SIGTERM)
        assert process.wait() == 0
        assert job.result(5) == "finished"
        assert "did not end in time" not in process.errors


def test_a_job_that_fails_because_it_is_cancelled_is_given_back_uncounted(
    unruly: Any, own_url: str, apps: Path, history: History
) -> None:
    """Libraries make errors of their own of a cancelled call, and so do clean-ups: no deployment shall bury a job."""
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
    """Its process outlives the supervisor for a moment, and must not give the job back uncounted, time and again."""
    job = unruly.kills_its_supervisor.enqueue(history.path)
    for attempt in (1, 2, 3):
        with worker("unruly:lw", "--lease", "10m", url=own_url, folder=apps) as process:
            assert process.wait() == -signal.SIGKILL
            (line,) = history.wait(attempt)[attempt - 1 :]
            assert line["attempt"] == attempt
            until(lambda: unruly.lw.queue().status().running == 0, "the session has ended, long before its lease")
    assert job.state() == "dead"
    assert unruly.lw.queue().workers() == []


def test_a_job_that_blocks_the_event_loop_does_not_outlive_its_supervisor(
    unruly: Any, own_url: str, apps: Path, history: History
) -> None:
    with worker("unruly:lw", url=own_url, folder=apps) as process:
        unruly.blocks_the_loop.enqueue(history.path)
        history.wait(1)
        (child,) = process.children()
        process.send(signal.SIGKILL)
        until(lambda: not alive(child), "it is gone")


def test_a_thread_that_a_job_left_behind_does_not_keep_the_process(unruly: Any, own_url: str, apps: Path) -> None:
    """Closing an event loop waits for what runs in its executor."""
    job = unruly.leaves_a_thread.enqueue()
    with worker("unruly:lw", "--burst", url=own_url, folder=apps) as process:
        assert process.wait() == 0
    assert job.state() == "succeeded"


def test_a_system_exit_in_the_background_ends_the_process_whatever_threads_run(
    unruly: Any, own_url: str, apps: Path, history: History
) -> None:
    """Else nothing would happen there any more, and the supervisor would keep its jobs leased."""
    with worker("unruly:lw", "--grace", "0", url=own_url, folder=apps):
        unruly.holds_a_thread.enqueue(history.path)
        history.wait(1)
        job = unruly.exits_in_the_background.enqueue(history.path)
        assert job.result(30) == 2
        assert unruly.lw.queue().status().failed == 0


def test_a_backoff_function_that_wants_to_exit_ends_no_process(
    unruly: Any, own_url: str, apps: Path, history: History
) -> None:
    job = unruly.fails_without_a_pause.enqueue(history.path)
    with worker("unruly:lw", url=own_url, folder=apps) as process:
        until(lambda: job.state() == "dead", "it has failed for good")
        assert "ended (" not in process.errors
    first, second = history.lines("ran")
    assert (first["attempt"], second["attempt"]) == (1, 2)
    assert first["pid"] == second["pid"]


def test_an_error_that_cannot_be_formatted_is_still_an_outcome(unruly: Any, own_url: str, apps: Path) -> None:
    with worker("unruly:lw", url=own_url, folder=apps) as process:
        job = unruly.fails_shyly.enqueue()
        with pytest.raises(JobFailed, match="RuntimeError: do not look"):
            job.result(20)
        process.send(signal.SIGTERM)
        assert process.wait() == 0
        assert "has ended, but goes to the dead set, for: RuntimeError: do not look" in process.errors


@pytest.mark.parametrize(("task", "places"), [("cancels_itself_and_goes_on", 1), ("cancels_itself_at_its_end", 2)])
def test_a_job_that_cancels_itself_cancels_no_other(
    unruly: Any, own_url: str, apps: Path, history: History, monkeypatch: pytest.MonkeyPatch, task: str, places: int
) -> None:
    """The next one runs in the same place; when it is cancelled by nobody, what was set up for it is taken down."""
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


def test_a_job_that_blocks_the_event_loop_is_named(own_url: str, tmp_path: Path) -> None:
    (tmp_path / "blockers.py").write_text(BLOCKERS)
    app: Any = load_app(tmp_path, "blockers", own_url)
    gates = [str(tmp_path / name) for name in ("one", "other", "third")]
    with app.lw, worker("blockers:lw", url=own_url, folder=tmp_path) as process:
        jobs = [app.in_a_thread.enqueue(gates[0]), app.waiting.enqueue(gates[1])]
        until(lambda: app.lw.queue().status().running == 2, "they run")
        blocking = app.blocking.enqueue(gates[2])
        said = f"job {blocking.id} of task 'blocking' has blocked the event loop for more than 1 s at"
        until(lambda: said in process.errors, "it is named while it blocks")
        assert f"{said} {tmp_path}/blockers.py, line 11, in blocks: no other job" in process.errors
        for gate in gates:
            Path(gate).touch()
        for job in [blocking, *jobs]:
            job.result(30)
        until(lambda: "the event loop continues after a block of " in process.errors, "that it is over is said, too")
        assert process.errors.count("has blocked the event loop") == 1
        assert not [line for line in process.errors.splitlines() if "blocked" in line and jobs[0].id in line]
