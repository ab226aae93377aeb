"""Hooks in a real worker: their events and order, and that no hook changes the outcome of a job."""

from __future__ import annotations

import signal
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from history import History
from lockwork import ConfigError, JobFailed, Lockwork
from lockwork.errors import JobCancelled
from lockwork.hooks import Enqueued, Started
from lockwork.ids import new_id
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import enqueue, record_header
from lockwork.protocol.queue.enqueue import NewJob
from processes import until

Load = Callable[[str], Any]


def events(history: History, job: Any) -> list[str]:
    return [line["event"] for line in history.lines() if line.get("id") == job.id]


@pytest.mark.parametrize("task", ["add", "add_in_a_thread"])
def test_hooks_of_successful_job_run_in_order(app: Load, work: Any, history: History, task: str) -> None:
    observed = app("observed")
    with work("observed"):
        job = getattr(observed, task).enqueue(2, b=3)
        assert job.result(30) == 5
        history.wait(1, "success")
    assert events(history, job) == ["enqueue", "start", "start-too", "ran", "success"]
    (sent,) = history.lines("enqueue")
    assert (sent["task"], sent["queue"], sent["args"], sent["kwargs"], sent["delay"]) == (
        task,
        "default",
        [2],
        {"b": 3},
        0,
    )
    (began,) = history.lines("start")
    assert (began["task"], began["attempt"], began["args"], began["current"]) == (task, 1, [2], job.id)
    (too,) = history.lines("start-too")
    assert too["thread"].startswith("lockwork-job")
    assert too["current"] == job.id
    (ended,) = history.lines("success")
    assert (ended["result"], ended["measured"]) == (5, True)


def test_hooks_run_for_each_failed_attempt(app: Load, work: Any, history: History) -> None:
    observed = app("observed")
    with work("observed", "--concurrency", "1"):  # the next attempt waits for the hooks of the previous one
        job = observed.fails.enqueue()
        with pytest.raises(JobFailed):
            job.result(30)
        history.wait(1, "dead")
    attempt = ["start", "start-too", "ran", "failure"]
    assert events(history, job) == ["enqueue", *attempt, "retry", *attempt, "dead"]
    assert [line["attempt"] for line in history.lines("failure")] == [1, 2]
    assert history.lines("retry")[0]["delay"] <= 0.01
    assert history.lines("dead")[0]["error"] == "ValueError('never works')"


@pytest.mark.parametrize(
    ("task", "error"), [("returns_what_cannot_be_kept", "ConfigError"), ("too_slow", "JobTimeout")]
)
def test_unstorable_result_and_timeout_run_failure_hooks(
    app: Load, work: Any, history: History, task: str, error: str
) -> None:
    observed = app("observed")
    with work("observed"):
        job = getattr(observed, task).enqueue()
        with pytest.raises(JobFailed):
            job.result(30)
        assert history.wait(1, "dead")[0]["error"].startswith(error)
    assert [event for event in events(history, job) if event in ("success", "failure", "dead")] == ["failure", "dead"]


def test_hooks_get_unreadable_job_without_a_task(app: Load, work: Any, history: History) -> None:
    observed = app("observed")
    id = new_id()
    with work("observed"):
        keys = QueueKeys("lw", "default")
        observed.lw.runtime.run(enqueue.push(keys, [NewJob(id, record_header.head(1, 1) + b"[5,[]]")]))
        (dead,) = history.wait(1, "dead")
    assert (dead["id"], dead["task"]) == (id, "")
    assert "not a call" in dead["error"]


@pytest.mark.parametrize("what", ["none", "error", "exit", "interrupt", "cancelled", "generator", "stop", "base"])
def test_exception_of_a_hook_loses_and_repeats_no_job(
    app: Load, work: Any, history: History, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setenv("TROUBLE", what)
    troubled = app("troubled")
    with work("troubled") as process:
        good = troubled.add.enqueue_many([(number, 1) for number in range(20)])
        bad = [troubled.fails.enqueue() for _ in range(5)]
        assert [job.result(30) for job in good] == list(range(1, 21))
        for job in bad:
            with pytest.raises(JobFailed, match="KeyError: 'never works'"):
                job.result(30)
        history.wait(20, "success")
        history.wait(5, "dead")
        ran = sorted((line["id"], line["attempt"]) for line in history.lines("ran"))
        wanted = sorted([(job.id, 1) for job in good] + [(job.id, attempt) for job in bad for attempt in (1, 2)])
        assert ran == wanted
        status = troubled.lw.queue().status()
        assert (status.succeeded, status.dead, status.ready, status.running, status.recovered) == (20, 5, 0, 0, 0)
        assert len(process.children()) == 1
        assert ("hook trouble failed for job" in process.errors) is (what != "none")


def test_hanging_hook_delays_neither_result_nor_stop(
    app: Load, work: Any, history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The outcome is sent before the hook runs; a stop cancels the hook and does not return the job."""
    hanging = app("hanging")
    with work("hanging", "--grace", "100ms") as process:
        job = hanging.add.enqueue(1, 1)
        assert job.result(30) == 2
        history.wait(1, "hangs")
        process.send(signal.SIGTERM)
        assert process.wait() == 0
    assert hanging.lw.queue().status().ready == 0
    assert job.state() == "succeeded"


def test_start_hook_in_a_thread_ends_before_its_cancelled_job(app: Load, work: Any, history: History) -> None:
    """Otherwise, the hook would run beside the next job and occupy a thread."""
    hanging = app("hanging")
    with work("hanging"):
        job = hanging.lingered.enqueue()
        history.wait(1, "lingers")
        assert job.cancel()
        with pytest.raises(JobCancelled):
            job.result(30)
    (line,) = history.lines("lingered")
    assert line["error"] == "JobCancelled"
    assert not history.lines("ran")


def test_end_hook_is_skipped_for_job_running_at_worker_stop(
    app: Load, work: Any, history: History, tmp_path: Path
) -> None:
    observed = app("observed")
    with work("observed", "--grace", "100ms") as process:
        job = observed.held.enqueue(str(tmp_path / "never"))
        history.wait(1)
        process.send(signal.SIGTERM)
        assert process.wait() == 0
    assert events(history, job) == ["enqueue", "start", "start-too", "ran"]
    assert observed.lw.queue().status().ready == 1


def test_snooze_runs_only_snooze_hooks(app: Load, work: Any, history: History, tmp_path: Path) -> None:
    observed = app("observed")
    with work("observed", "--concurrency", "1"):  # the next attempt waits for the hooks of the previous one
        job = observed.snoozes.enqueue(str(tmp_path / "slept"))
        assert job.result(30) == 1
        history.wait(1, "success")
    begun = ["start", "start-too", "ran"]
    assert events(history, job) == ["enqueue", *begun, "snooze", *begun, "success"]
    (line,) = history.lines("snooze")
    assert (line["task"], line["attempt"], line["delay"], line["current"]) == ("snoozes", 1, 0.01, job.id)


def test_job_that_retries_itself_runs_failure_hooks(app: Load, work: Any, history: History) -> None:
    observed = app("observed")
    with work("observed", "--concurrency", "1"):  # the next attempt waits for the hooks of the previous one
        job = observed.asks_again.enqueue()
        with pytest.raises(JobFailed):
            job.result(30)
        history.wait(1, "dead")
    attempt = ["start", "start-too", "ran", "failure"]
    assert events(history, job) == ["enqueue", *attempt, "retry", *attempt, "dead"]
    assert history.lines("retry")[0]["delay"] == 0.01
    assert all(line["error"].startswith("Again(") for line in history.lines("failure"))


@pytest.mark.parametrize("task", ["held", "held_in_a_thread"])
def test_job_cancelled_during_its_run_runs_cancel_hook_once(
    app: Load, work: Any, history: History, tmp_path: Path, task: str
) -> None:
    """The slot then runs the next job."""
    observed = app("observed")
    arguments = [str(tmp_path / "never")] if task == "held" else []
    with work("observed", "--concurrency", "1") as process:
        job = getattr(observed, task).enqueue(*arguments)
        history.wait(1)
        assert job.cancel()
        with pytest.raises(JobCancelled):
            job.result(30)
        assert observed.add.enqueue(1, 2).result(30) == 3
        history.wait(1, "success")
        assert len(process.children()) == 1
    assert events(history, job) == ["enqueue", "start", "start-too", "ran", "cancel"]
    assert history.lines("cancel")[0]["current"] == job.id


def test_job_that_finishes_despite_cancellation_runs_success_hook(
    app: Load, work: Any, history: History, tmp_path: Path
) -> None:
    observed = app("observed")
    with work("observed", "--concurrency", "1"):
        job = observed.stubborn.enqueue(str(tmp_path / "never"))
        history.wait(1)
        assert job.cancel()
        assert job.result(30) == "finished"
        assert observed.add.enqueue(1, 2).result(30) == 3
        history.wait(2, "success")
    assert events(history, job) == ["enqueue", "start", "start-too", "ran", "success"]


def test_hooks_are_skipped_for_job_cancelled_before_start(app: Load, work: Any, history: History) -> None:
    observed = app("observed")
    job = observed.add.enqueue(1)
    assert job.cancel()
    with work("observed"):
        assert observed.add.enqueue(1, 2).result(30) == 3
        history.wait(1, "success")
    assert events(history, job) == ["enqueue"]


async def test_enqueue_hooks_run_for_each_enqueue_method(app: Load, history: History) -> None:
    observed = app("observed")
    await observed.add.options(delay="1h").aenqueue(1)
    await observed.add.aenqueue_many([(2,), (3, 4)])
    await observed.add.options(expires="1h", tags=["told"]).aenqueue(5)
    await observed.add.options(at=datetime.now(UTC) + timedelta(hours=1)).aenqueue(6)
    await observed.add.options(at=datetime.now(UTC) - timedelta(hours=1)).aenqueue(7)
    await observed.lw.aclose()
    lines = history.lines("enqueue")
    found = [(line["args"], line["kwargs"], round(line["delay"], -2)) for line in lines]
    assert found == [
        ([1], {}, 3600), ([2], {}, 0), ([3, 4], {}, 0), ([5], {}, 0), ([6], {}, 3600), ([7], {}, 0)
    ]  # fmt: skip


def test_hooks_run_for_each_job_of_a_batch(app: Load, history: History) -> None:
    observed = app("observed")
    found = observed.add.enqueue_many([(1,), (2,)])
    assert [line["id"] for line in history.lines("enqueue")] == [job.id for job in found]


def test_failing_enqueue_hook_does_not_fail_the_call(lw: Lockwork, caplog: pytest.LogCaptureFixture) -> None:
    """An error would suggest that the job was not enqueued, and the caller would repeat the call."""
    enqueued_ids: list[str] = []

    @lw.hooks.enqueue
    def fails(event: Enqueued) -> None:
        raise ValueError("a hook's own problem")

    @lw.hooks.enqueue
    def told_too(event: Enqueued) -> None:
        enqueued_ids.append(event.id)

    @lw.task
    def nothing() -> None: ...

    job = nothing.enqueue()
    assert enqueued_ids == [job.id]
    assert lw.queue().status().ready == 1
    assert f"fails failed for job {job.id}; the job continues" in caplog.text


def test_enqueue_hook_is_skipped_for_job_that_was_not_enqueued() -> None:
    enqueued_ids: list[Enqueued] = []
    with Lockwork("redis://127.0.0.1:1", patience=0) as lw:
        lw.hooks.enqueue(enqueued_ids.append)

        @lw.task
        def nothing() -> None: ...

        with pytest.raises(ConnectionError):
            nothing.enqueue()
        with pytest.raises(TypeError):
            nothing.enqueue(1)  # type: ignore[call-arg]
    assert enqueued_ids == []


def test_registration_refuses_wrong_hooks() -> None:
    lw = Lockwork("redis://127.0.0.1:1")

    async def later(event: Enqueued) -> None: ...

    def generates(event: Started) -> Any:
        yield

    with pytest.raises(ConfigError, match="a hook must be a function that takes one event, not 5"):
        lw.hooks.start(5)  # type: ignore[type-var]
    with pytest.raises(ConfigError, match="cannot be async def: .*later"):
        lw.hooks.enqueue(later)  # type: ignore[type-var]
    with pytest.raises(ConfigError, match="not a generator: .*generates"):
        lw.hooks.start(generates)
    wrong: Any
    for wrong in (lambda: None, lambda event, more: None):
        with pytest.raises(ConfigError, match="a hook must take one argument, the event: .*lambda"):
            lw.hooks.success(wrong)
    assert not lw.hooks.in_worker
    lw.hooks.success(print)


def test_history_detects_a_job_that_a_hook_repeats(app: Load, work: Any, history: History) -> None:
    """Mutant: the app's hook enqueues the job again."""
    observed = app("observed")
    with observed.doubling, work("observed:doubling"):
        observed.once.enqueue(0)
        until(lambda: len(history.lines("ran")) > 1, "the double is seen")
