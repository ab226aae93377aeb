"""Workers that die or stop while jobs run: the attempts that this costs, and the hooks of dead jobs."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app_modules import Load
from clients import client_of
from history import History
from lockwork import JobFailed
from lockwork.protocol.keys import QueueKeys
from processes import Started, alive, stopped, until, worker

KEYS = QueueKeys("lw", "default")


@pytest.fixture
def mortal(own_url: str, load: Load, history: History) -> Iterator[Any]:
    module: Any = load(own_url, "mortal")
    with module.lw:
        yield module


def _attempts(history: History) -> list[int]:
    return [line["attempt"] for line in history.lines("ran")]


def _asleep(url: str, count: int) -> None:
    with client_of(url) as admin:
        until(lambda: admin.zcount(KEYS.idle_workers, 0, "+inf") == count, f"{count} workers sleep")


def _freeze(process: Started) -> list[int]:
    pids = [process.pid, *process.children()]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    until(lambda: all(map(stopped, pids)), "the machine is frozen")
    return pids


def test_death_of_worker_is_no_failure_of_its_job(mortal: Any, own_url: str, apps: Path, history: History) -> None:
    """A job without retries was dead although its code had never failed."""
    with worker("mortal:lw", url=own_url, folder=apps) as process:
        job = mortal.holds_once.enqueue()
        history.wait(1)
        (child,) = process.children()
        os.kill(child, signal.SIGKILL)
        assert job.result(60) == 2
        assert "1 job returned to the queue" in process.errors


def test_job_is_dead_after_three_deaths_of_its_worker(mortal: Any, own_url: str, apps: Path, history: History) -> None:
    with worker("mortal:lw", url=own_url, folder=apps) as process:
        job = mortal.kills_its_worker.enqueue()
        with pytest.raises(JobFailed, match="WorkerDied: its worker died 3 times while it ran"):
            job.result(60)
        (line,) = history.wait(1, "dead")
        assert (line["id"], line["task"], line["queue"]) == (job.id, "kills_its_worker", "default")
        assert (line["attempt"], line["error"], line["of_worker"]) == (3, "its worker died 3 times while it ran", True)
        until(lambda: process.errors.count("returned to the queue") == 3, "the log says so of each")
        assert "1 job goes to the dead set with worker session" in process.errors
        assert f"{job.id} of task 'kills_its_worker' (its worker died 3 times while it ran)" in process.errors
        assert "0 jobs returned to the queue" in process.errors
    assert _attempts(history) == [1, 2, 3]
    assert not history.lines("failure")
    assert job.inspect().attempts == 3
    dead = mortal.lw.queue().dead.get(job.id)
    assert (dead.attempts, dead.crashes) == (3, 3)


def test_death_of_worker_costs_no_retry(mortal: Any, own_url: str, apps: Path, history: History) -> None:
    with worker("mortal:lw", url=own_url, folder=apps) as process:
        with pytest.raises(JobFailed, match="ValueError"):
            mortal.dies_then_fails.enqueue().result(60)
        assert "attempt 3 of 3" in process.errors
    assert _attempts(history) == [1, 2, 3]


@pytest.mark.parametrize(
    ("task", "attempts", "problem"),
    [
        ("kills_once", [1], "it was delivered 1 of at most 1 times"),
        ("fails_once", [1], "ValueError: no"),
        ("may_start_twice", [1, 2], "it was delivered 2 of at most 2 times"),
    ],
)
def test_max_deliveries_counts_every_outcome(
    mortal: Any, own_url: str, apps: Path, history: History, task: str, attempts: list[int], problem: str
) -> None:
    with worker("mortal:lw", url=own_url, folder=apps):
        with pytest.raises(JobFailed, match=problem):
            getattr(mortal, task).enqueue().result(60)
        history.wait(1, "dead")
        assert mortal.mark.enqueue().result(60) == 1
    assert _attempts(history) == [*attempts, 1]


@pytest.mark.parametrize("task", ["starts_once", "starts_once_in_a_thread", "starts_once_in_a_process"])
def test_stopping_worker_starts_no_job_twice(
    mortal: Any, own_url: str, apps: Path, history: History, task: str
) -> None:
    """The started job is dead; the other job is returned and starts on another worker."""
    with worker("mortal:lw", "-c", "1", "--grace", "200ms", url=own_url, folder=apps) as process:
        begun = getattr(mortal, task).enqueue()
        history.wait(1)
        waiting = mortal.starts_once.enqueue()
        process.send(signal.SIGTERM)
        assert process.wait() == 0
        assert f"{begun.id} of task {task!r} (its worker stopped while it ran" in process.errors
        assert f"no worker process can call the hooks of jobs that ended with their process: {begun.id}" in (
            process.errors
        )
    assert (begun.state(), waiting.state()) == ("dead", "ready")
    with pytest.raises(JobFailed, match="WorkerDied: its worker stopped while it ran"):
        begun.result(0)
    with worker("mortal:lw", url=own_url, folder=apps):
        history.wait(2)
    assert [(line["id"], line["attempt"]) for line in history.lines("ran")] == [(begun.id, 1), (waiting.id, 1)]


def test_recovery_of_a_machine_runs_dead_hooks(mortal: Any, own_url: str, apps: Path, history: History) -> None:
    with worker("mortal:lw", "--lease", "2s", url=own_url, folder=apps) as frozen:
        jobs = [mortal.starts_once.enqueue() for _ in range(12)]
        history.wait(12)
        pids = _freeze(frozen)
        try:
            with worker("mortal:lw", "--lease", "2s", url=own_url, folder=apps) as other:
                dead = history.wait(12, "dead")
                assert {line["id"] for line in dead} == {job.id for job in jobs}
                assert {line["pid"] for line in dead} == set(other.children())
                assert "12 jobs go to the dead set with worker session" in other.errors
                assert "and 2 more" in other.errors
                assert sum(job.id in other.errors for job in jobs) == 10
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
    assert _attempts(history) == [1] * 12


def test_job_offered_to_frozen_worker_did_not_start(mortal: Any, own_url: str, apps: Path, history: History) -> None:
    """The worker was idle; when its lease expired, the job was dead although it had never run."""
    with worker("mortal:lw", "--lease", "2s", url=own_url, folder=apps) as frozen:
        _asleep(own_url, 1)
        assert mortal.mark.enqueue().result(60) == 1  # from now on, the app offers jobs to the idle worker
        _asleep(own_url, 1)
        pids = _freeze(frozen)
        try:
            job = mortal.mark.enqueue()
            assert mortal.lw.queue().status().running == 1, "it is offered"
            with worker("mortal:lw", "--lease", "2s", url=own_url, folder=apps):
                assert job.result(60) == 1, "its first attempt"
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)


def test_job_that_kills_its_worker_starts_at_most_max_deliveries(
    mortal: Any, own_url: str, apps: Path, history: History
) -> None:
    """The worker dies before it confirms the job; a process whose death was observed was not idle."""
    with worker("mortal:lw", url=own_url, folder=apps):
        _asleep(own_url, 1)
        assert mortal.mark.enqueue().result(60) == 1
        _asleep(own_url, 1)
        with pytest.raises(JobFailed, match="WorkerDied: its worker died 3 times"):
            mortal.kills_its_worker.enqueue().result(60)
    assert _attempts(history) == [1, 1, 2, 3]


@pytest.mark.parametrize("number", range(6))
def test_child_without_supervisor_leases_no_jobs(
    mortal: Any, own_url: str, apps: Path, history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    number: int,
) -> None:  # fmt: skip
    """The supervisor was killed during the import; the process leased 10 jobs, and each lost an attempt."""
    gate = tmp_path / "gate"
    monkeypatch.setenv("GATE", str(gate))
    jobs = [mortal.holds_once.enqueue() for _ in range(10)]
    with worker("mortal:lw", url=own_url, folder=apps) as process:
        history.wait(1, "importing")
        (child,) = process.children()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        gate.touch()
        until(lambda: not alive(child), "it ends")
    assert not history.lines("ran")
    status = mortal.lw.queue().status()
    assert (status.ready, status.running, status.dead, status.recovered) == (10, 0, 0, 0)
    assert [job.attempts() for job in jobs] == [0] * 10


def _stopping(url: str) -> bool:
    """Return True if a session is marked as stopping."""
    with client_of(url) as admin:
        return any(score % 1 for _, score in admin.zrange(KEYS.workers, 0, -1, withscores=True))


def test_worker_killed_during_its_grace_costs_its_job_nothing(
    shift: Any, own_url: str, apps: Path, history: History, tmp_path: Path
) -> None:
    """Simulates `docker stop`: SIGTERM, and SIGKILL for all processes before the grace period ends."""
    gate = tmp_path / "gate"
    job = shift.gated.enqueue(history.path, str(gate))
    for deployment in range(1, 5):
        with worker("shift:lw", "--lease", "1s", url=own_url, folder=apps) as process:
            history.wait(deployment)
            process.send(signal.SIGTERM)
            until(lambda: _stopping(own_url), "the session is marked")
            for pid in _freeze(process):
                os.kill(pid, signal.SIGKILL)
    gate.touch()
    with worker("shift:lw", "--lease", "1s", url=own_url, folder=apps):
        assert job.result(60) == 1
    assert _attempts(history) == [1] * 5
    with client_of(own_url) as admin:
        assert not admin.exists(KEYS.tries)


def test_crash_during_the_grace_counts(shift: Any, own_url: str, apps: Path, history: History, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job = shift.gated.enqueue(history.path, str(gate))
    with worker("shift:lw", url=own_url, folder=apps) as process:
        history.wait(1)
        process.send(signal.SIGTERM)
        until(lambda: _stopping(own_url), "the session is marked")
        (child,) = process.children()
        os.kill(child, signal.SIGKILL)
        assert process.wait() == 0
    gate.touch()
    with worker("shift:lw", url=own_url, folder=apps):
        assert job.result(60) == 2
