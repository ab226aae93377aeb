"""Features of jobs in runner processes, which are the same as in worker processes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from history import History
from lockwork import JobFailed
from lockwork.errors import ConfigError, JobCancelled
from processes import started, until, worker


def test_runners_are_reused(forge: Any, own_url: str, apps: Path) -> None:
    with worker("forge:lw", "--runners", "1", url=own_url, folder=apps) as process:
        found = [job.result(30) for job in forge.pids.enqueue_many([()] * 20)]
        found += [job.result(30) for job in forge.pids_of_a_coroutine.enqueue_many([()] * 5)]
        (child,) = process.children()
        assert len({pid for pid, _ in found}) == 1
        assert {parent for _, parent in found} == {child}
        assert found[0][0] != child


def test_runners_limit_concurrency(forge: Any, own_url: str, apps: Path, history: History, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with worker("forge:lw", "--runners", "3", url=own_url, folder=apps):
        jobs = forge.gated.enqueue_many([(history.path, str(gate))] * 5)
        lines = history.wait(3)
        gate.touch()
        assert [job.result(30) for job in jobs] == [1] * 5
        assert len({line["pid"] for line in lines[:3]}) == 3
        assert len({line["pid"] for line in history.lines("ran")}) == 3


def test_results_and_arguments_of_any_size(forge: Any, own_url: str, apps: Path) -> None:
    values = [None, 0, "", [], {"a": [1.5, None, "ä\n\0"]}, "x" * 900_000, list(range(100_000))]
    with worker("forge:lw", "--runners", "2", url=own_url, folder=apps):
        assert [forge.echo.enqueue(value).result(30) for value in values] == values


def test_progress_survives_the_process(forge: Any, own_url: str, apps: Path, history: History) -> None:
    with worker("forge:lw", "--runners", "1", url=own_url, folder=apps):
        job = forge.steps.options(tags=["hot"]).enqueue(history.path)
        found = job.result(30)
        assert found["first"] == [1, 2]
        assert (found["queue"], found["tags"], found["task"]) == ("default", ["hot"], "steps")
        assert found["fence"] > 1
        assert [line["attempt"] for line in history.lines()] == [1, 2]


def test_error_of_a_runner_job_is_stored_with_traceback(forge: Any, own_url: str, apps: Path) -> None:
    with worker("forge:lw", url=own_url, folder=apps):
        job = forge.raises.enqueue("no such iron")
        with pytest.raises(JobFailed, match="LookupError: no such iron"):
            job.result(30)
        error = job.error()
        assert (error.type, error.text) == ("LookupError", "no such iron")
        assert "raise LookupError(text)" in error.traceback
        assert "forge.py" in error.traceback


def test_result_that_cannot_be_sent_fails_only_its_job(forge: Any, own_url: str, apps: Path, history: History) -> None:
    with worker("forge:lw", "--runners", "1", url=own_url, folder=apps):
        job = forge.returns_what_json_cannot_hold.enqueue(history.path)
        with pytest.raises(JobFailed, match="cannot be sent as JSON"):
            job.result(30)
        first = forge.pids.enqueue().result(30)[0]
        assert history.lines()[0]["pid"] == first
        assert len(history.lines()) == 1


def test_give_up_on_and_snooze_work_in_a_runner(forge: Any, own_url: str, apps: Path, history: History) -> None:
    with worker("forge:lw", url=own_url, folder=apps):
        with pytest.raises(JobFailed, match="no use"):
            forge.gives_up.enqueue(history.path).result(30)
        assert len(history.lines()) == 1
        job = forge.snoozes.enqueue(history.path)
        history.wait(4)
        Path(history.path + ".gate").touch()
        assert job.result(30) == 1  # the snoozes were not counted


@pytest.mark.parametrize("task", ["cancelled", "cancelled_coroutine"])
def test_cancellation_interrupts_a_runner_job(
    forge: Any, own_url: str, apps: Path, history: History, task: str
) -> None:
    with worker("forge:lw", "--runners", "1", url=own_url, folder=apps):
        job = getattr(forge, task).enqueue(history.path)
        (line,) = history.wait(1)
        assert job.cancel()
        with pytest.raises(JobCancelled):
            job.result(30)
        assert history.wait(1, "cancelled")[0]["said"] is True
        # the process continues
        assert forge.pids.enqueue().result(30)[0] == line["pid"]


def test_job_that_waits_for_a_runner_can_be_cancelled(
    forge: Any, own_url: str, apps: Path, history: History, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    with worker("forge:lw", "--runners", "1", url=own_url, folder=apps):
        first = forge.gated.enqueue(history.path, str(gate))
        history.wait(1)
        second = forge.gated.enqueue(history.path, str(gate))
        third = forge.pids.enqueue()
        until(lambda: forge.lw.queue().status().running == 3, "all are leased")
        second.cancel()
        with pytest.raises(JobCancelled):
            second.result(30)
        gate.touch()
        assert first.result(30) == 1
        assert third.result(30)
        assert len(history.lines("ran")) == 1


def test_timeout_does_not_kill_the_runner(forge: Any, own_url: str, apps: Path, history: History) -> None:
    with worker("forge:lw", "--runners", "1", url=own_url, folder=apps):
        with pytest.raises(JobFailed, match="JobTimeout"):
            forge.slow.enqueue(history.path).result(30)
        assert forge.pids.enqueue().result(30)[0] == history.lines()[0]["pid"]


def test_runner_job_can_enqueue(forge: Any, own_url: str, apps: Path) -> None:
    with worker("forge:lw", url=own_url, folder=apps):
        assert forge.lw.job(forge.enqueues.enqueue().result(30)).result(30)


def test_job_enqueued_at_the_end_of_another_runs_on_the_freed_runner(forge: Any, own_url: str, apps: Path) -> None:
    """The runner is free before the worker process has processed the previous outcome."""
    with worker("forge:lw", "--runners", "1", url=own_url, folder=apps):
        id = forge.relay.enqueue(200).id
        while id:
            id = forge.lw.job(id).result(30)


def test_runner_above_max_memory_is_replaced(forge: Any, own_url: str, apps: Path) -> None:
    options = ("--runners", "1", "--max-memory", "200MB")
    with worker("forge:lw", *options, url=own_url, folder=apps) as process:
        hoarder = forge.hoards.enqueue(300).result(30)
        assert forge.pids.enqueue().result(30)[0] != hoarder
        assert f"runner process {hoarder} is replaced: it takes" in process.errors


def test_app_is_found_after_jobs_change_the_directory(forge: Any, own_url: str, apps: Path, tmp_path: Path) -> None:
    with worker("forge:lw", "--runners", "1", url=own_url, folder=apps):
        assert forge.goes_elsewhere_itself.enqueue(str(tmp_path)).result(30) is None
        assert forge.goes_elsewhere.enqueue(str(tmp_path)).result(30) == str(tmp_path)


def test_runner_settings_may_exceed_the_argument_limit(forge: Any, own_url: str, apps: Path) -> None:
    """The system limits an argument to 128 KiB."""
    names = [f"{number:04d}" + "x" * 150 for number in range(1000)]
    options = [part for at in (0, 500) for part in ("-q", ",".join(names[at : at + 500]))]
    with worker("forge:lw", "-q", "default", *options, "--runners", "1", url=own_url, folder=apps):
        assert forge.pids.enqueue().result(30)


def test_printed_output_appears_at_once(forge: Any, own_url: str, apps: Path) -> None:
    with worker("forge:lw", url=own_url, folder=apps) as process:
        assert forge.prints.enqueue("red hot").result(30) == ""
        assert process.line() == "red hot"


@pytest.mark.parametrize("closed", ["2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_worker_runs_with_closed_standard_streams(forge: Any, own_url: str, apps: Path, closed: str) -> None:
    """Otherwise, other files would take their descriptors, and programs would write to them."""
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-m", "lockwork", "worker", "forge:lw"]
    with started(command, url=own_url, folder=apps) as process:
        assert forge.prints.enqueue("into the void").result(30) == ""
        (child,) = process.children()
        for pid in (process.pid, child):
            files = {number: str(Path(f"/proc/{pid}/fd/{number}").readlink()) for number in (1, 2)}
            assert "socket" not in "".join(files.values()), files


@pytest.mark.parametrize("executor", ["thread", "Process", 1, True])
def test_unknown_executor_is_refused(forge: Any, executor: Any) -> None:
    with pytest.raises(ConfigError, match='executor must be "process", not'):
        forge.lw.task(executor=executor)


def test_batch_task_with_process_executor_is_refused(forge: Any) -> None:
    with pytest.raises(ConfigError, match='a batch task cannot have executor="process"'):
        forge.lw.task(executor="process", batch=10)


def test_hard_timeout_must_not_be_shorter_than_timeout(forge: Any) -> None:
    with pytest.raises(ConfigError, match="must not be shorter than timeout"):
        forge.lw.task(timeout=5, hard_timeout=4)
    with pytest.raises(ConfigError, match="must not be shorter than timeout"):
        forge.stubborn_after_its_timeout.options(hard_timeout=0.1)
    with pytest.raises(ConfigError, match="hard_timeout must be more than 0"):
        forge.pids.options(hard_timeout=0)
