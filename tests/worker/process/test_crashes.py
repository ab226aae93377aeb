"""Runner processes that crash: only the job that ran there fails."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from history import History
from lockwork import JobFailed
from lockwork.worker.environment import LOOPS
from processes import alive, children, until, worker


@pytest.mark.parametrize("how", ["exit", "segfault", "kill"])
def test_crash_of_a_runner_harms_no_other_job(
    forge: Any, own_url: str, apps: Path, history: History, tmp_path: Path, how: str
) -> None:
    gate = tmp_path / "gate"
    with worker("forge:lw", "--runners", "2", url=own_url, folder=apps) as process:
        beside = [forge.gated.enqueue(history.path, str(gate)), forge.gated_coroutine.enqueue(history.path, str(gate))]
        others = history.wait(2)
        (child,) = process.children()
        dying = forge.dies_once.enqueue(history.path, how)
        assert dying.result(30) == 2
        gate.touch()
        assert [job.result(30) for job in beside] == [1, 1]
        assert process.children() == [child]
        first, second = [line for line in history.lines("ran") if line["id"] == dying.id]
        assert first["pid"] != second["pid"]
        assert not alive(first["pid"])
        assert first["pid"] not in [line["pid"] for line in others]
        status = forge.lw.queue().status()
        assert (status.succeeded, status.failed, status.retried, status.recovered) == (3, 1, 1, 0)


@pytest.mark.parametrize(
    ("how", "fate"), [("exit", "exit status 7"), ("segfault", "killed by SIGSEGV"), ("kill", "killed by SIGKILL")]
)
def test_job_that_always_crashes_is_dead_with_a_clear_error(
    forge: Any, own_url: str, apps: Path, history: History, how: str, fate: str
) -> None:
    """Crashes of a job are counted and bounded (celery#1628)."""
    with worker("forge:lw", "--runners", "2", url=own_url, folder=apps) as process:
        job = forge.always_dies.enqueue(history.path, how)
        with pytest.raises(JobFailed, match=f"WorkerDied: the process that ran it died: {fate}"):
            job.result(60)
        assert [line["attempt"] for line in history.lines()] == [1, 2, 3], "its retries are for failures"
        dead = forge.lw.queue().dead.get(job.id)
        assert (dead.attempts, dead.crashes) == (3, 3)
        assert forge.pids.enqueue().result(30)
        assert len(process.children()) == 1


def test_crashes_are_bounded_apart_from_retries(forge: Any, own_url: str, apps: Path, history: History) -> None:
    with worker("forge:lw", url=own_url, folder=apps):
        with pytest.raises(JobFailed, match="WorkerDied"):
            forge.dies_as_often_as_it_may.enqueue(history.path).result(30)
        assert len(history.lines()) == 3


def test_runner_that_dies_before_its_job_starts_costs_no_attempt(forge: Any, own_url: str, apps: Path) -> None:
    with worker("forge:lw", "--runners", "1", url=own_url, folder=apps):
        first = forge.pids.enqueue().result(30)[0]
        os.kill(first, signal.SIGSTOP)
        job = forge.pids.enqueue()
        until(lambda: forge.lw.queue().status().running == 1, "the job is on its way to it")
        os.kill(first, signal.SIGKILL)
        assert job.result(30)[0] != first
        assert forge.lw.queue().status().failed == 0


def test_idle_runner_that_dies_is_replaced(forge: Any, own_url: str, apps: Path) -> None:
    with worker("forge:lw", "--runners", "1", url=own_url, folder=apps):
        first = forge.pids.enqueue().result(30)[0]
        os.kill(first, signal.SIGKILL)
        until(lambda: not alive(first), "it is dead")
        job = forge.pids.enqueue()
        assert job.result(30)[0] != first
        assert forge.lw.queue().status().failed == 0


@pytest.mark.parametrize("task", ["waits_for_any", "ignores_deaths"])
def test_death_reported_to_another_process_is_noticed(
    forge: Any, own_url: str, apps: Path, history: History, tmp_path: Path, task: str
) -> None:
    """A job of the worker process waits for any child process, or ignores SIGCHLD."""
    gate = tmp_path / "gate"
    with worker("forge:lw", "--runners", "1", url=own_url, folder=apps):
        dying = forge.dies_later.enqueue(history.path, str(gate))
        history.wait(1)
        getattr(forge, task).enqueue(history.path)
        history.wait(2)
        gate.touch()
        with pytest.raises(JobFailed, match="WorkerDied: the process that ran it died"):
            dying.result(30)
        with pytest.raises(JobFailed, match="JobTimeout"):
            forge.stubborn.enqueue(history.path).result(30)
        assert forge.pids.enqueue().result(30)


def test_crashes_are_noticed_when_app_ignores_sigchld(
    forge: Any, own_url: str, apps: Path, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORGE_IGNORES_DEATHS", "1")
    with worker("forge:lw", "--runners", "1", url=own_url, folder=apps):
        with pytest.raises(JobFailed, match="WorkerDied: the process that ran it died: exit status 7"):
            forge.always_dies.enqueue(history.path, "exit").result(30)
        assert forge.runs_a_program.enqueue().result(30) == 1


def test_crashes_among_hundreds_of_jobs(forge: Any, own_url: str, apps: Path, history: History) -> None:
    with worker("forge:lw", "--runners", "2", url=own_url, folder=apps) as process:
        dying = forge.dies_once.enqueue_many([(history.path, how) for how in ("exit", "kill") * 5])
        living = forge.echo.enqueue_many([(number,) for number in range(200)])
        assert [job.result(60) for job in dying] == [2] * 10
        assert [job.result(60) for job in living] == list(range(200))
        (child,) = process.children()
        assert len(children(child)) <= 2


def test_processes_that_cannot_start_cost_no_attempt(
    forge: Any, own_url: str, apps: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORGE_FAILS_IN_RUNNERS", "1")
    with worker("forge:lw", url=own_url, folder=apps) as process:
        job = forge.pids.enqueue()
        until(lambda: process.errors.count("no process could be started for it: exit status 9") >= 2, "it is tried")
        assert job.inspect().attempts in (None, 0)
        assert job.state() in ("scheduled", "ready", "running")
        assert forge.lw.queue().status().failed == 0


def test_programs_of_a_dead_job_are_ended(forge: Any, own_url: str, apps: Path, history: History) -> None:
    with worker("forge:lw", "--runners", "1", url=own_url, folder=apps):
        with pytest.raises(JobFailed, match="JobTimeout"):
            forge.hides_behind_a_program.enqueue(history.path).result(30)
        program = history.lines()[0]["program"]
        until(lambda: not alive(program), "the program is gone, too")


def test_forked_copy_does_not_hide_the_crash_of_its_runner(
    forge: Any, own_url: str, apps: Path, history: History
) -> None:
    """The copy keeps the runner's socket open."""
    with worker("forge:lw", "--runners", "1", url=own_url, folder=apps):
        with pytest.raises(JobFailed, match="WorkerDied: the process that ran it died: exit status 7"):
            forge.forks.enqueue(history.path).result(30)
        left = history.lines()[0]["left"]
        until(lambda: not alive(left), "it has ended, too")
        assert forge.pids.enqueue().result(30)


@pytest.mark.parametrize("loop", LOOPS)
def test_forked_copy_of_a_runner_sends_no_messages(
    forge: Any, own_url: str, apps: Path, history: History, loop: str
) -> None:
    """Otherwise, the worker process would take them for the runner's, and end the wrong job."""
    with worker("forge:lw", "--runners", "1", "--loop", loop, url=own_url, folder=apps):
        jobs = forge.goes_on_twice.enqueue_many([(history.path,)] * 2)
        found = forge.echo.enqueue_many([(number,) for number in range(6)])
        assert [job.result(30) for job in jobs] == [0, 0]
        assert [job.result(30) for job in found] == list(range(6))
        assert forge.pids.enqueue().result(30)[0] == history.lines()[0]["pid"]
        assert forge.lw.queue().status().failed == 0
