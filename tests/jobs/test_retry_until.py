"""`retry_until`: a deadline for all attempts of a job."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from history import History
from lockwork import ConfigError, JobFailed
from lockwork.protocol.queue import record_header
from processes import until, worker


def _nothing() -> None:
    """Do nothing; no worker runs it."""


def test_failure_is_final_when_the_next_attempt_would_be_too_late(handled: Any, history: History) -> None:
    task = handled.picky.options(backoff=["20s"], retries=5, retry_until="10s")
    job = task.enqueue(history.path, "reset")
    with pytest.raises(JobFailed) as failure:
        job.result(10)
    assert failure.value.type == "ConnectionResetError"
    assert [line["attempt"] for line in history.lines("ran")] == [1]
    view = job.inspect()
    assert (view.state, view.attempts) == ("dead", 1)
    assert view.error is not None
    assert "the next attempt would begin after its retry_until" in view.error.traceback


def test_failed_job_is_retried_until_its_deadline(handled: Any, history: History) -> None:
    began = time.time()
    job = handled.picky.options(backoff=["50ms"], retries=1000, retry_until=1).enqueue(history.path, "reset")
    with pytest.raises(JobFailed):
        job.result(30)
    attempts = [line["attempt"] for line in history.lines("ran")]
    assert attempts == list(range(1, len(attempts) + 1))
    assert 2 <= len(attempts) <= 20
    assert time.time() - began >= 0.9, "attempts end only shortly before the deadline"


def test_requested_retry_after_the_deadline_is_final(handled: Any, history: History) -> None:
    """`job.retry()` uses a delay of its own."""
    task = handled.asks_again.options(retry_until=datetime.now(UTC) + timedelta(seconds=20))
    assert task.enqueue(history.path).result(30) == 3
    job = handled.asks_again.options(retry_until="1ms", delay=0).enqueue(history.path)
    with pytest.raises(JobFailed):
        job.result(30)
    assert job.state() == "dead"


def test_waiting_job_does_not_start_after_its_deadline(own: Any, own_url: str, apps: Path, history: History) -> None:
    task = own.fails_unless.options(retry_until="20ms")
    jobs = [task.enqueue(history.path, "no gate"), *task.enqueue_many([(history.path, "no gate")] * 2)]
    time.sleep(0.03)
    with worker("handled:lw", url=own_url, folder=apps):
        for job in jobs:
            with pytest.raises(JobFailed) as failure:
                job.result(30)
            assert failure.value.type == "RetryUntilPassed"
            assert "passed before attempt 1 could begin" in failure.value.text
        assert own.add.options(retry_until="1h").enqueue(1).result(30) == 2
    assert not Path(history.path).exists() or not history.lines("ran")
    assert [job.state() for job in jobs] == ["dead"] * 3


@pytest.mark.parametrize("how", ["job", "dead"])
def test_job_retried_by_hand_has_no_deadline(own: Any, own_url: str, apps: Path, history: History, how: str) -> None:
    gate = Path(history.path).with_name("gate")
    gate.touch()
    task = own.fails_unless.options(retry_until="20ms", max_deliveries=3)
    job = task.enqueue(history.path, str(gate))
    time.sleep(0.03)
    with worker("handled:lw", url=own_url, folder=apps):
        until(lambda: job.state() == "dead", "it is dead")
        assert job.inspect().retry_until is not None
        if how == "job":
            assert job.retry()
        else:
            assert own.lw.queue().dead.retry(job.id)
        assert job.result(30) == "came through"
    assert job.inspect().retry_until is None


def test_process_death_is_final_after_the_deadline(own: Any, own_url: str, apps: Path, history: History) -> None:
    job = own.dies.options(retry_until="1s", max_deliveries=1000).enqueue(history.path)
    with worker("handled:lw", url=own_url, folder=apps):
        until(lambda: job.state() == "dead", "it is dead", 60)
    assert len(history.lines("ran")) < 1000


def test_duration_counts_from_the_enqueue(own: Any) -> None:
    before = datetime.now(UTC)
    limit = own.add.options(retry_until="1h", delay="10m").enqueue(1).inspect().retry_until
    assert timedelta(0) <= limit - before - timedelta(hours=1) + timedelta(milliseconds=1) < timedelta(minutes=1)
    assert own.add.options(retry_until=limit).enqueue(1).inspect().retry_until == limit
    assert own.add.enqueue(1).inspect().retry_until is None


def test_task_option_applies_to_all_jobs(lw: Any) -> None:
    task = lw.task(retry_until="10m", hide_arguments=True, key="a")(_nothing)
    view = task.enqueue().inspect()
    assert view.retry_until is not None
    assert (view.hidden, view.key) == (True, "a")
    assert task.options(retry_until=None).enqueue().inspect().retry_until is None


async def test_async_enqueue_has_a_deadline(alw: Any) -> None:
    task = alw.task(retry_until="10m")(_nothing)
    jobs = [await task.aenqueue(), *await task.aenqueue_many([(), ()])]
    assert [(await job.ainspect()).retry_until is not None for job in jobs] == [True] * 3


def test_debounced_job_counts_from_the_last_call(lw: Any) -> None:
    task = lw.task(unique="a", on_duplicate="replace", retry_until="10m")(_nothing)
    job = task.options(delay="1h", retry_until="2h").enqueue()
    first = job.inspect().retry_until
    time.sleep(0.01)
    assert task.options(delay="1h", retry_until="2h").enqueue().id == job.id
    assert job.inspect().retry_until > first


@pytest.mark.parametrize("wrong", [0, -1, "soon", datetime(2030, 1, 1), 1e9, True, []])  # noqa: DTZ001 - without a zone
def test_wrong_deadlines_are_refused(lw: Any, wrong: Any) -> None:
    with pytest.raises(ConfigError, match="retry_until"):
        lw.task(retry_until=wrong)(_nothing)


def test_deadline_before_the_start_is_refused(lw: Any) -> None:
    task = lw.task(name="late")(_nothing)
    with pytest.raises(ConfigError, match="the job would be dead before it may start.*pass a later retry_until"):
        task.options(delay="10m", retry_until="10m")


@pytest.mark.parametrize("more", [{}, {"deliveries": 2}, {"tracked_ms": 5}, {"deliveries": 2, "tracked_ms": 5}])
@pytest.mark.parametrize("hidden", [False, True])
def test_header_keeps_all_numbers(more: Any, *, hidden: bool) -> None:
    for until_ms, expected in ((-1_800_000_000_000, 1_800_000_000_000), (0, None)):
        stored = record_header.head(1, 4, "k", hidden=hidden, retry_until_ms=until_ms, **more) + b"[]"
        assert record_header.retry_until(stored, "") == expected
        assert record_header.budget(stored) == (4, more.get("deliveries", 0))
        assert record_header.tracked_ms(stored) == more.get("tracked_ms", 0)
        assert record_header.is_hidden(stored) == hidden
        assert record_header.names(stored).key == "k"


def test_runner_process_keeps_the_deadline(own: Any, own_url: str, apps: Path, history: History) -> None:
    with worker("handled:lw", url=own_url, folder=apps):
        job = own.alone.options(retry_until="10s", backoff=["20s"]).enqueue(history.path)
        with pytest.raises(JobFailed):
            job.result(30)
    assert job.inspect().attempts == 1
    (line,) = history.lines("ran")
    assert line["pid"] != os.getpid()
