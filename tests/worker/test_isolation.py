"""Jobs that ran during the crash of their process run in isolation, so that a job that crashes ends no other job."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app_modules import Load
from history import History
from lockwork import JobFailed
from processes import until, worker

INNOCENTS = 30


@pytest.fixture
def poison(own_url: str, load: Load, history: History, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("HISTORY", history.path)
    Path(history.path).touch()
    module: Any = load(own_url, "poison")
    with module.lw:
        yield module


@pytest.mark.parametrize("processes", [1, 3])
def test_poison_job_takes_no_other_job_along(
    poison: Any, own_url: str, apps: Path, history: History, processes: int
) -> None:
    with worker("poison:lw", "-p", str(processes), "-c", "31", url=own_url, folder=apps) as process:
        job = poison.crashes.enqueue(INNOCENTS if processes == 1 else 1)
        innocents = [poison.innocent.enqueue() for _ in range(INNOCENTS)]
        with pytest.raises(JobFailed, match="WorkerDied: its worker died 3 times while it ran"):
            job.result(120)
        if processes > 1:
            for pid in process.children():  # the others wait for the end of theirs
                os.kill(pid, signal.SIGKILL)
        assert [innocent.result(120) for innocent in innocents] == [2] * INNOCENTS
        dead = poison.lw.queue().dead.get(job.id)
        assert (dead.attempts, dead.crashes, dead.shared_crashes) == (4, 3, 1)
        assert "jobs run alone next" in process.errors
    assert [line["attempt"] for line in history.lines("poison")] == [1, 2, 3, 4]
    assert poison.lw.queue().status().dead == 1


def test_suspects_run_alone_and_are_marked(
    poison: Any, own_url: str, apps: Path, history: History, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    with worker("poison:lw", "-c", "5", url=own_url, folder=apps) as process:
        innocents = [poison.innocent.enqueue(str(gate)) for _ in range(3)]
        poison.crashes.enqueue(3)
        until(lambda: len(history.lines("innocent")) >= 4, "a suspect runs")
        running = until(lambda: [job for job in innocents if job.state() == "running"], "the server knows that")
        assert len(running) == 1
        states = [job.inspect() for job in innocents if job not in running]
        assert [(seen.state, seen.suspect, seen.attempts) for seen in states] == [("ready", True, 1)] * 2
        assert states[0].timeline[-1].error.text == "its worker died while it ran beside 3 other jobs"
        assert not running[0].inspect().suspect
        found = poison.lw.jobs(state="ready").jobs
        assert {job.id for job in found} >= {seen.id for seen in states}
        (seen,) = poison.lw.workers()
        assert seen.processes == 1
        # meanwhile, other jobs run in the usual process
        assert poison.late.enqueue().result(60) is None
        gate.touch()
        assert [job.result(60) for job in innocents] == [2] * 3
        until(lambda: poison.lw.queue().status().dead == 1, "the poison job is dead")
        assert process.errors.count("runs suspects, each alone") >= 3
    pids = {line["pid"] for line in history.lines("done")}
    assert not pids & {line["pid"] for line in history.lines("late")}


def test_isolation_processes_end_when_there_are_no_suspects(
    poison: Any, own_url: str, apps: Path, history: History
) -> None:
    with worker("poison:lw", url=own_url, folder=apps) as process:
        poison.crashes.enqueue(1)
        assert poison.innocent.enqueue().result(60) == 2
        until(lambda: poison.lw.queue().status().dead == 1, "the poison job is dead")
        until(lambda: len(process.children()) == 1, "only the usual process is left")


def test_suspects_of_a_batch_task_run_as_batches_of_one(
    poison: Any, own_url: str, apps: Path, history: History
) -> None:
    jobs = poison.together.enqueue_many([(number,) for number in range(5)])
    with worker("poison:lw", "-c", "5", url=own_url, folder=apps):
        assert [job.result(60) for job in jobs] == [1] * 5


def test_failed_suspect_is_retried_like_other_jobs(poison: Any, own_url: str, apps: Path, history: History) -> None:
    with worker("poison:lw", url=own_url, folder=apps):
        poison.crashes.enqueue(1)
        job = poison.fails_alone.enqueue()
        assert job.result(60) == 3
        assert [(each.number, each.outcome) for each in job.inspect().timeline][:2] == [(1, "died"), (2, "failed")]


def test_burst_ends_when_suspects_and_their_jobs_have_ended(
    poison: Any, own_url: str, apps: Path, history: History
) -> None:
    poison.crashes.enqueue(1)
    job = poison.breeds.enqueue()
    with worker("poison:lw", "--burst", url=own_url, folder=apps) as process:
        assert process.wait() == 0
    status = poison.lw.queue().status()
    assert (status.ready, status.running, status.dead, status.succeeded) == (0, 0, 1, 2)
    assert job.state() == "succeeded"
    assert len(history.lines("late")) == 1


def test_suspects_of_a_dead_machine_run_alone_elsewhere(
    poison: Any, own_url: str, apps: Path, history: History
) -> None:
    with worker("poison:lw", "--lease", "1s", url=own_url, folder=apps) as machine:
        jobs = [poison.innocent.enqueue() for _ in range(3)]
        history.wait(3, "innocent")
        pids = [machine.pid, *machine.children()]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
    with worker("poison:lw", "--lease", "1s", url=own_url, folder=apps):
        assert [job.result(60) for job in jobs] == [2] * 3
    assert all(job.inspect().timeline[0].outcome == "died" for job in jobs)


def test_worker_that_runs_one_job_takes_a_suspect(poison: Any, own_url: str, apps: Path, history: History) -> None:
    with worker("poison:lw", url=own_url, folder=apps) as process:
        job = poison.innocent.enqueue()
        other = poison.innocent.enqueue()
        history.wait(2, "innocent")
        for pid in [*process.children(), process.pid]:
            os.kill(pid, signal.SIGSTOP)
            os.kill(pid, signal.SIGKILL)
    with worker("poison:lw", "--lease", "1s", "--once", url=own_url, folder=apps) as process:
        assert process.wait() == 0
    assert sorted([job.state(), other.state()]) == ["ready", "succeeded"]
