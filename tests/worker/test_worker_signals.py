"""Signals: quiet, stop, stop at once. Only the supervisor handles them."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from history import History
from lockwork.worker.execution.slots import WorkerSlots
from processes import alive, started, until, worker
from sleeping import sleepers


def test_quiet_only_stops_fetching(shift: Any, own_url: str, apps: Path, history: History, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with worker("shift:lw", "-p", "2", url=own_url, folder=apps) as process:
        job = shift.gated.enqueue(history.path, str(gate))
        history.wait(1)
        sleepers(own_url, "default", 2)
        process.send(signal.SIGUSR1)
        until(lambda: "quiet" in process.errors, "it is quiet")
        sleepers(own_url, "default", 0)
        waiting = shift.mark.enqueue(history.path)
        gate.touch()
        assert job.result(30) == 1
        assert shift.lw.queue().status().ready == 1
        # a process that would replace another one fetches nothing either
        os.kill(process.children()[0], signal.SIGKILL)
        until(lambda: "killed by SIGKILL" in process.errors, "its death is noticed")
        assert process.process.poll() is None
        process.send(signal.SIGTERM)
        assert process.wait() == 0
        assert waiting.state() == "ready"
        assert (shift.lw.queue().status().ready, shift.lw.queue().workers()) == (1, [])


@pytest.mark.parametrize("task", ["gated", "gated_in_a_thread"])
def test_second_signal_returns_all_jobs_uncounted(
    shift: Any, own_url: str, apps: Path, history: History, tmp_path: Path, task: str
) -> None:
    """Jobs of a stopped worker are not lost, and lose no attempt (celery#1810, rq#2015, airflow#21225)."""
    gate = tmp_path / "gate"
    options = ("--grace", "10m", "--lease", "60s", "-c", "3")
    with worker("shift:lw", *options, url=own_url, folder=apps) as process:
        jobs = getattr(shift, task).enqueue_many([(history.path, str(gate))] * 5)
        history.wait(3)
        children = process.children()
        process.send(signal.SIGTERM)
        until(lambda: "stopping: " in process.errors, "it stops")
        assert alive(process.pid)
        process.send(signal.SIGTERM)
        assert process.wait() == 0
        assert not any(map(alive, children))
        status = shift.lw.queue().status()
        assert (status.ready, status.running, status.recovered) == (5, 0, 0)
    gate.touch()
    with worker("shift:lw", "--burst", url=own_url, folder=apps) as process:
        assert process.wait() == 0
    assert [job.result(1) for job in jobs] == [1] * 5


def test_sighup_stops_the_worker_like_sigterm(
    shift: Any, own_url: str, apps: Path, history: History, tmp_path: Path
) -> None:
    """The shell and the system both send SIGHUP, and systemd sends it to all processes."""
    gate = tmp_path / "gate"
    with worker("shift:lw", url=own_url, folder=apps) as process:
        job = shift.gated.enqueue(history.path, str(gate))
        history.wait(1)
        (child,) = process.children()
        process.send(signal.SIGHUP)
        until(lambda: "stopping: " in process.errors, "it stops")
        for pid in (child, process.pid):
            os.kill(pid, signal.SIGHUP)
        gate.touch()
        assert process.wait() == 0
        assert job.result(1) == 1
        assert "at once" not in process.errors.replace("ends them at once", "")


def test_worker_under_nohup_ignores_sighup(shift: Any, own_url: str, apps: Path, history: History) -> None:
    command = ["nohup", sys.executable, "-m", "lockwork", "worker", "shift:lw"]
    with started(command, folder=apps, url=own_url) as process:
        shift.mark.enqueue(history.path)
        history.wait(1)
        for pid in (process.pid, *process.children()):
            os.kill(pid, signal.SIGHUP)
        shift.mark.enqueue(history.path)
        history.wait(2)
        process.send(signal.SIGTERM)
        assert process.wait() == 0
        assert "ended" not in process.errors


def test_recent_process_death_does_not_shorten_the_grace(
    shift: Any, own_url: str, apps: Path, history: History, tmp_path: Path
) -> None:
    """The worker mistook a timed replacement for the end of the grace period."""
    gate = tmp_path / "gate"
    with worker("shift:lw", "-p", "2", "-c", "1", url=own_url, folder=apps) as process:
        first = shift.gated.enqueue(history.path, str(gate))
        (line,) = history.wait(1)
        for deaths in (1, 2, 3, 4):
            (victim,) = until(lambda: set(process.children()) - {line["pid"]}, "another process is there")
            os.kill(victim, signal.SIGKILL)
            until(lambda times=deaths: process.errors.count("killed by SIGKILL") == times, "its death is noticed")  # type: ignore[misc]
        process.send(signal.SIGTERM)
        until(lambda: "stopping: " in process.errors, "it stops")
        threading.Event().wait(2)
        gate.touch()
        assert process.wait() == 0
        assert first.result(1) == 1
        assert "did not end in time" not in process.errors


def test_jobs_that_did_not_start_keep_their_order() -> None:
    returned: list[int] = []

    class Runner:
        def give_back(self, job: Any) -> None:
            returned.append(job)

        async def run(self, job: Any, slot: Any) -> None: ...

    slots = WorkerSlots(3)
    runner: Any = Runner()
    slots._inbox.extend((job, runner) for job in (1, 2, 3))  # type: ignore[misc]
    slots.cancel()
    # each job is added in front of the earlier ones
    assert returned == [3, 2, 1]


def test_programs_that_jobs_start_can_be_ended(shift: Any, own_url: str, apps: Path) -> None:
    """Programs inherit ignored signals from the process that starts them."""
    with worker("shift:lw", url=own_url, folder=apps):
        assert shift.ends_a_program.enqueue().result(30) == -signal.SIGTERM
