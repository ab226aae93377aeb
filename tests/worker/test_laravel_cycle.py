"""The worker cycle of Laravel's queue, operation by operation; see docs/coming-from/laravel.md."""

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
from processes import Started, until, worker
from sleeping import sleepers

APPS = Path(__file__).parent / "apps"


@pytest.fixture
def cycle(own_url: str, load: Load) -> Iterator[Any]:
    """The app's tasks, without a worker."""
    module: Any = load(own_url, "cycle")
    with module.lw:
        yield module


def work(url: str, *options: str) -> Started:
    """Run a worker to its end."""
    with worker("cycle:lw", *options, url=url, folder=APPS) as process:
        assert process.wait() == 0, process.errors
        assert "Warning" not in process.errors
        return process


def attempts(history: History) -> list[int]:
    return [line["attempt"] for line in history.lines("ran")]


def test_successful_job_is_reserved_once_and_deleted(cycle: Any, own_url: str, history: History) -> None:
    job = cycle.send.enqueue(history.path)
    assert cycle.lw.queue("mail").status().ready == 1
    work(own_url, "--burst")
    assert attempts(history) == [1]
    assert (job.state(), job.result(5)) == ("succeeded", 1)
    status = cycle.lw.queue("mail").status()
    assert (status.ready, status.scheduled, status.running, status.dead) == (0, 0, 0, 0)


def test_delayed_job_is_scheduled_until_its_time(cycle: Any, own_url: str, history: History) -> None:
    late = cycle.send.options(delay="1h").enqueue(history.path)
    (seen,) = cycle.lw.queue("mail").peek(place="scheduled")
    assert seen.id == late.id
    assert 3500 < seen.due_in <= 3600
    work(own_url, "--burst")
    assert attempts(history) == []
    assert late.reschedule(delay=0)
    work(own_url, "--burst")
    assert attempts(history) == [1]


def test_job_of_killed_process_runs_again_and_counts_attempt(
    cycle: Any, own_url: str, history: History, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    with worker("cycle:lw", "--lease", "5s", url=own_url, folder=APPS) as process:
        job = cycle.held.enqueue(history.path, str(gate))
        history.wait(1)
        assert cycle.lw.queue("mail").status().running == 1
        for child in process.children():
            os.kill(child, signal.SIGKILL)
        history.wait(2)
        gate.touch()
        assert job.result(30) == 2
    assert attempts(history) == [1, 2]


def test_job_releases_itself_with_a_delay(cycle: Any, own_url: str, history: History) -> None:
    job = cycle.releases.enqueue(history.path)
    with worker("cycle:lw", url=own_url, folder=APPS):
        assert job.result(30) == 2
    first, second = history.lines("ran")
    assert second["at"] - first["at"] >= 0.045


def test_job_is_dead_after_its_last_try(cycle: Any, own_url: str, history: History) -> None:
    job = cycle.fails.enqueue(history.path)
    with worker("cycle:lw", url=own_url, folder=APPS):
        with pytest.raises(JobFailed, match="out of paper"):
            job.result(30)
    assert attempts(history) == [1, 2, 3]
    assert job.error().type == "ValueError"
    assert cycle.lw.queue("mail").status().dead == 1


def test_backoff_list_delays_retries(cycle: Any, own_url: str, history: History) -> None:
    cycle.fails.enqueue(history.path)
    with worker("cycle:lw", url=own_url, folder=APPS):
        first, second, third = (line["at"] for line in history.wait(3))
    assert second - first >= 0.055
    assert third - second >= 0.115


def test_releases_cost_no_attempt_but_exceptions_do(cycle: Any, own_url: str, history: History) -> None:
    job = cycle.throttled.enqueue(history.path, 4)
    with worker("cycle:lw", url=own_url, folder=APPS):
        until(lambda: job.state() == "dead", "it failed for good")
    assert attempts(history) == [1, 1, 1, 1, 1, 2]


def test_job_that_fails_itself_is_not_retried(cycle: Any, own_url: str, history: History) -> None:
    job = cycle.gives_up.enqueue(history.path)
    work(own_url, "--burst")
    assert (attempts(history), job.state()) == ([1], "dead")


@pytest.mark.parametrize(("task", "expected"), [("slow", [1, 2]), ("fails_on_timeout", [1])])
def test_timeout_is_retried_unless_it_fails_the_job(
    cycle: Any, own_url: str, history: History, task: str, expected: list[int]
) -> None:
    job = getattr(cycle, task).enqueue(history.path)
    with worker("cycle:lw", url=own_url, folder=APPS):
        until(lambda: job.state() == "dead", "it failed for good")
    assert attempts(history) == expected


def test_expired_job_does_not_run(cycle: Any, own_url: str, history: History) -> None:
    job = cycle.send.options(expires="1ms").enqueue(history.path)
    work(own_url, "--burst")
    assert (attempts(history), job.state()) == ([], "expired")


def test_jobs_do_not_overlap(cycle: Any, own_url: str, history: History) -> None:
    jobs = cycle.alone.enqueue_many([(history.path, 1)] * 5)
    work(own_url, "--burst")
    events = [(line["event"], line["id"]) for line in history.lines()]
    assert events == [(event, job.id) for job in jobs for event in ("ran", "done")]


def test_once_runs_one_job(cycle: Any, own_url: str, history: History) -> None:
    cycle.send.enqueue_many([(history.path,)] * 3)
    work(own_url, "--once")
    assert attempts(history) == [1]
    assert cycle.lw.queue("mail").status().ready == 2


def test_burst_stops_when_queue_is_empty(cycle: Any, own_url: str, history: History) -> None:
    cycle.send.enqueue_many([(history.path,)] * 3)
    later = cycle.send.options(delay="1h").enqueue(history.path)
    work(own_url, "--burst")
    assert attempts(history) == [1, 1, 1]
    assert later.state() == "scheduled"


def test_queues_are_served_in_order(cycle: Any, own_url: str, history: History) -> None:
    cycle.send.enqueue_many([(history.path,)] * 2)
    cycle.urgent.enqueue_many([(history.path,)] * 2)
    work(own_url, "--queue", "high,mail", "--concurrency", "1", "--burst")
    assert [line["queue"] for line in history.lines("ran")] == ["high", "high", "mail", "mail"]


def test_process_is_replaced_without_losing_jobs(cycle: Any, own_url: str, history: History) -> None:
    cycle.send.enqueue_many([(history.path,)] * 30)
    work(own_url, "--burst", "--max-jobs", "10", "--max-memory", "1GB")
    assert attempts(history) == [1] * 30


def test_sigusr1_pauses_fetching_and_sigterm_finishes_running_jobs(
    cycle: Any, own_url: str, history: History, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    with worker("cycle:lw", url=own_url, folder=APPS) as process:
        running = cycle.held.enqueue(history.path, str(gate))
        history.wait(1)
        sleepers(own_url, "mail", 1)
        process.send(signal.SIGUSR1)
        sleepers(own_url, "mail", 0)
        waiting = cycle.send.enqueue(history.path)
        process.send(signal.SIGTERM)
        gate.touch()
        assert process.wait() == 0
    assert running.state() == "succeeded"
    assert waiting.state() == "ready"
    work(own_url, "--burst")
    assert waiting.state() == "succeeded"


def test_paused_queue_starts_no_jobs(cycle: Any, own_url: str, history: History) -> None:
    cycle.lw.queue("mail").pause()
    paused = cycle.send.enqueue(history.path)
    with worker("cycle:lw", url=own_url, folder=APPS):
        assert cycle.urgent.enqueue(history.path).result(30) == 1
        assert paused.state() == "ready"
        assert [line["queue"] for line in history.lines("ran")] == ["high"]
        cycle.lw.queue("mail").resume()
        assert paused.result(30) == 1


def test_failed_jobs_are_retried_forgotten_and_flushed(cycle: Any, own_url: str, history: History) -> None:
    jobs = cycle.gives_up.enqueue_many([(history.path,)] * 3)
    work(own_url, "--burst")
    dead = cycle.lw.queue("mail").dead
    assert {job.id for job in dead.search().jobs} == {job.id for job in jobs}
    assert dead.retry(jobs[0].id)
    assert jobs[0].state() == "ready"
    work(own_url, "--burst")
    assert dead.delete(jobs[1].id)
    assert dead.retry_all() == 2
    work(own_url, "--burst")
    assert dead.count() == 2
    assert dead.delete_all(older_than="48h") == 0
    assert dead.delete_all() == 2
    assert attempts(history) == [1] * 6


def test_clear_deletes_waiting_jobs(cycle: Any, own_url: str, history: History) -> None:
    cycle.send.enqueue_many([(history.path,)] * 3)
    cycle.send.options(delay="1h").enqueue(history.path)
    assert cycle.lw.queue("mail").clear() == 4
    work(own_url, "--burst")
    assert attempts(history) == []
