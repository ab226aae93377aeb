"""Hooks in a real worker: who is told what, in which order, and that no hook changes a job's fate."""

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
from lockwork.protocol.queues import enqueue, record_header
from lockwork.protocol.queues.enqueue import NewJob
from processes import until

Load = Callable[[str], Any]


def events(history: History, job: Any) -> list[str]:
    return [line["event"] for line in history.lines() if line.get("id") == job.id]


@pytest.mark.parametrize("task", ["add", "add_in_a_thread"])
def test_a_job_that_succeeds(app: Load, work: Any, history: History, task: str) -> None:
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
    with work("observed", "--concurrency", "1"):  # the next attempt waits for the hooks of the last
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
def test_other_ends_are_failures_too(app: Load, work: Any, history: History, task: str, error: str) -> None:
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
        observed.lw.runtime.run(enqueue.push(keys, [NewJob(id, record_header.head(1, 1) + b'["nobody",[]]')]))
        (dead,) = history.wait(1, "dead")
    assert (dead["id"], dead["task"]) == (id, "")
    assert "UnknownTask" in dead["error"]


@pytest.mark.parametrize("what", ["none", "error", "exit", "interrupt", "cancelled", "generator", "stop", "base"])
def test_whatever_a_hook_raises_no_job_is_lost_or_doubled(
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


def test_a_hook_that_hangs_keeps_neither_the_result_nor_the_worker(
    app: Load, work: Any, history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The outcome leaves first; and at the end of the grace the hook is cancelled, and the job is not given back."""
    hanging = app("hanging")
    with work("hanging", "--grace", "100ms") as process:
        job = hanging.add.enqueue(1, 1)
        assert job.result(30) == 2
        history.wait(1, "hangs")
        process.send(signal.SIGTERM)
        assert process.wait() == 0
    assert hanging.lw.queue().status().ready == 0
    assert job.state() == "succeeded"


def test_a_start_hook_in_a_thread_has_ended_when_its_cancelled_job_has(app: Load, work: Any, history: History) -> None:
    """Else it would go on beside whatever runs next, in a thread that other jobs lack."""
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


def test_no_end_hook_for_job_running_at_worker_stop(app: Load, work: Any, history: History, tmp_path: Path) -> None:
    observed = app("observed")
    with work("observed", "--grace", "100ms") as process:
        job = observed.held.enqueue(str(tmp_path / "never"))
        history.wait(1)
        process.send(signal.SIGTERM)
        assert process.wait() == 0
    assert events(history, job) == ["enqueue", "start", "start-too", "ran"]
    assert observed.lw.queue().status().ready == 1


def test_a_snooze_is_neither_a_failure_nor_an_end(app: Load, work: Any, history: History, tmp_path: Path) -> None:
    observed = app("observed")
    with work("observed", "--concurrency", "1"):  # the next attempt waits for the hooks of the last
        job = observed.snoozes.enqueue(str(tmp_path / "slept"))
        assert job.result(30) == 1
        history.wait(1, "success")
    begun = ["start", "start-too", "ran"]
    assert events(history, job) == ["enqueue", *begun, "snooze", *begun, "success"]
    (line,) = history.lines("snooze")
    assert (line["task"], line["attempt"], line["delay"], line["current"]) == ("snoozes", 1, 0.01, job.id)


def test_a_job_that_asks_to_be_tried_again_has_failed(app: Load, work: Any, history: History) -> None:
    observed = app("observed")
    with work("observed", "--concurrency", "1"):  # the next attempt waits for the hooks of the last
        job = observed.asks_again.enqueue()
        with pytest.raises(JobFailed):
            job.result(30)
        history.wait(1, "dead")
    attempt = ["start", "start-too", "ran", "failure"]
    assert events(history, job) == ["enqueue", *attempt, "retry", *attempt, "dead"]
    assert history.lines("retry")[0]["delay"] == 0.01
    assert all(line["error"].startswith("Again(") for line in history.lines("failure"))


@pytest.mark.parametrize("task", ["held", "held_in_a_thread"])
def test_a_job_that_is_cancelled_while_it_runs(
    app: Load, work: Any, history: History, tmp_path: Path, task: str
) -> None:
    """It is told of once, and its lane works on."""
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


def test_a_job_that_finishes_although_it_is_cancelled(app: Load, work: Any, history: History, tmp_path: Path) -> None:
    observed = app("observed")
    with work("observed", "--concurrency", "1"):
        job = observed.stubborn.enqueue(str(tmp_path / "never"))
        history.wait(1)
        assert job.cancel()
        assert job.result(30) == "finished"
        assert observed.add.enqueue(1, 2).result(30) == 3
        history.wait(2, "success")
    assert events(history, job) == ["enqueue", "start", "start-too", "ran", "success"]


def test_no_hook_for_job_cancelled_before_start(app: Load, work: Any, history: History) -> None:
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


def test_a_failing_enqueue_hook_does_not_fail_the_call(lw: Lockwork, caplog: pytest.LogCaptureFixture) -> None:
    """Raising would look as if the job had not been enqueued, and the caller would do it again."""
    told: list[str] = []

    @lw.hooks.enqueue
    def fails(event: Enqueued) -> None:
        raise ValueError("a hook's own problem")

    @lw.hooks.enqueue
    def told_too(event: Enqueued) -> None:
        told.append(event.id)

    @lw.task
    def nothing() -> None: ...

    job = nothing.enqueue()
    assert told == [job.id]
    assert lw.queue().status().ready == 1
    assert f"fails failed for job {job.id}; the job continues" in caplog.text


def test_no_hook_for_job_that_was_not_enqueued() -> None:
    told: list[Enqueued] = []
    with Lockwork("redis://127.0.0.1:1", patience=0) as lw:
        lw.hooks.enqueue(told.append)

        @lw.task
        def nothing() -> None: ...

        with pytest.raises(ConnectionError):
            nothing.enqueue()
        with pytest.raises(TypeError):
            nothing.enqueue(1)  # type: ignore[call-arg]
    assert told == []


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


def test_the_history_catches_a_job_that_a_hook_doubles(app: Load, work: Any, history: History) -> None:
    """The mutant: an app whose hook does what a hook must not, and enqueues the job again."""
    doubling = app("doubling")
    with work("doubling"):
        doubling.once.enqueue(0)
        until(lambda: len(history.lines("ran")) > 1, "the double is seen")
