"""Hard timeouts: the process of the job is killed in every case."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app_modules import Load
from history import History
from lockwork import JobFailed
from mortal_servers import MortalServer
from processes import alive, until, worker


def test_job_that_ignores_exceptions_is_killed(
    forge: Any, own_url: str, apps: Path, history: History, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    with worker("forge:lw", "--runners", "2", url=own_url, folder=apps) as process:
        beside = forge.gated.enqueue(history.path, str(gate))
        history.wait(1)
        job = forge.stubborn.enqueue(history.path)
        with pytest.raises(JobFailed, match=r"JobTimeout: it took longer than its hard time-out of 1\.5 s"):
            job.result(30)
        gate.touch()
        assert beside.result(30) == 1
        lines = [line for line in history.lines("ran") if line["id"] == job.id]
        assert [line["attempt"] for line in lines] == [1, 2]
        assert not any(alive(line["pid"]) for line in lines)
        assert len(process.children()) == 1
        assert forge.lw.queue().status().recovered == 0


def test_timeout_is_raised_before_the_hard_timeout(forge: Any, own_url: str, apps: Path, history: History) -> None:
    with worker("forge:lw", url=own_url, folder=apps):
        with pytest.raises(JobFailed, match="hard time-out of 3 s"):
            forge.stubborn_after_its_timeout.enqueue(history.path).result(30)
        assert history.lines("JobTimeout")


def test_hard_timeout_can_be_set_for_one_job(
    forge: Any, own_url: str, apps: Path, history: History, tmp_path: Path
) -> None:
    with worker("forge:lw", url=own_url, folder=apps):
        job = forge.gated.options(hard_timeout="500ms", retries=0).enqueue(history.path, str(tmp_path / "gate"))
        with pytest.raises(JobFailed, match=r"hard time-out of 0\.5 s"):
            job.result(30)


@pytest.mark.parametrize("task", ["stubborn_thread", "blocks_the_loop", "holds_the_interpreter"])
def test_worker_process_is_killed_at_a_hard_timeout(
    forge: Any, own_url: str, apps: Path, history: History, tmp_path: Path, task: str
) -> None:
    """A blocked loop or native code cannot delay it; only the overdue job fails."""
    gate = tmp_path / "gate"
    with worker("forge:lw", "--lease", "60s", url=own_url, folder=apps) as process:
        others = [
            forge.gated_coroutine.enqueue(history.path, str(gate)),
            forge.gated.enqueue(history.path, str(gate)),
        ]
        history.wait(2)
        (child,) = process.children()
        job = getattr(forge, task).enqueue(history.path)
        with pytest.raises(JobFailed, match=r"JobTimeout: it took longer than its hard time-out of 1\.5 s"):
            job.result(30)
        assert [line["attempt"] for line in history.lines("ran") if line["id"] == job.id] == [1, 2]
        gate.touch()
        assert [other.result(30) for other in others] == [1, 1]
        assert not alive(child)
        assert f"job {job.id} exceeded its hard time-out: worker process {child} is killed" in process.errors
        status = forge.lw.queue().status()
        assert (status.recovered, status.failed, status.dead, status.succeeded) == (0, 2, 1, 2)


def test_jobs_that_end_in_time_are_not_killed(
    forge: Any, own_url: str, apps: Path, history: History, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    with worker("forge:lw", "-c", "20", url=own_url, folder=apps) as process:
        (child,) = until(process.children, "its child is there")
        jobs = forge.quick.options(hard_timeout="3s").enqueue_many([(history.path,)] * 300)
        assert [job.result(30) for job in jobs] == [1] * 300
        gated = forge.gated_coroutine.options(hard_timeout="1m").enqueue(history.path, str(gate))
        history.wait(301)
        # the limits of the first jobs pass
        last = forge.stubborn.enqueue(history.path)
        with pytest.raises(JobFailed):
            last.result(30)
        gate.touch()
        assert gated.result(30) == 1
        assert process.children() == [child]


def test_burst_worker_continues_after_a_hard_timeout(forge: Any, own_url: str, apps: Path, history: History) -> None:
    job = forge.stubborn_thread.enqueue(history.path)
    others = forge.quick.enqueue_many([(history.path,)] * 3)
    with worker("forge:lw", "--burst", url=own_url, folder=apps) as process:
        assert process.wait() == 0
    assert [other.result(5) for other in others] == [1] * 3
    assert job.inspect().attempts in (1, 2)


def test_once_ends_after_a_hard_timeout(forge: Any, own_url: str, apps: Path, history: History) -> None:
    forge.stubborn_thread.enqueue(history.path)
    with worker("forge:lw", "--once", url=own_url, folder=apps) as process:
        assert process.wait() == 0
    assert len(history.lines()) == 1
    assert forge.lw.queue().status().retried == 1


@pytest.mark.timeout(120)
def test_hard_timeout_during_outage_is_recorded_later(load: Load, apps: Path, history: History, tmp_path: Path) -> None:
    """After the outage, outcomes are the same as without it."""
    gate = tmp_path / "gate"
    with MortalServer(tmp_path / "mortal") as server:
        app: Any = load(server.url, "forge")
        with app.lw, worker("forge:lw", "--lease", "60s", url=server.url, folder=apps) as process:
            other = app.gated_coroutine.enqueue(history.path, str(gate))
            job = app.stubborn_thread.options(hard_timeout="3s", retries=0).enqueue(history.path)
            history.wait(2)
            server.kill()
            until(lambda: f"job {job.id} exceeded its hard time-out" in process.errors, "the supervisor notices")
            until(lambda: "could not be returned to the queue yet" in process.errors, "the server does not answer")
            gate.touch()
            server.start()
            with pytest.raises(JobFailed, match="hard time-out of 3 s"):
                job.result(30)
            assert other.result(30) == 1
            assert app.lw.queue().status().recovered == 0
