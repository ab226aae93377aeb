"""Dependencies in a real worker: their scopes, and their clean-up for every outcome of a job."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from history import History
from lockwork import JobFailed
from lockwork.errors import JobCancelled
from processes import until

Load = Callable[[str], Any]


@pytest.fixture
def injected(app: Load, work: Any) -> Iterator[Any]:
    """The app, with a worker."""
    module = app("injected")
    with work("injected", "-c", "4"):
        yield module


def seen(history: History, *, pool: bool = False) -> list[str]:
    return [line["event"] for line in history.lines() if pool or not line["event"].startswith("pool")]


def test_nested_dependencies_are_provided_once(injected: Any, history: History) -> None:
    assert injected.reads.enqueue(7).result(30) == [7, "connection of pool 1", "user in connection of pool 1"]
    # one connection for the task and for its user
    assert seen(history) == ["connect", "ran", "commit", "disconnect"]
    assert {line["thread"] for line in history.lines("ran")} == {"MainThread"}


def test_blocking_dependencies_of_a_def_task_run_in_its_thread(injected: Any, history: History) -> None:
    """Some database connections can be used only in the thread that created them."""
    assert injected.reads_in_a_thread.enqueue(5).result(30) == [5, "connection of pool 1", "session", True]
    assert injected.reads_in_a_thread.enqueue(number=6).result(30)[0] == 6
    one = ["connect", "session", "ran", "session committed", "commit", "disconnect"]
    assert seen(history) == one * 2
    threads = [line["thread"] for line in history.lines() if line["event"] in ("session", "ran", "session committed")]
    assert len(set(threads[:3])) == 1
    assert history.lines("connect")[0]["thread"] == "MainThread"


def test_blocking_dependencies_of_an_async_task_do_not_block_the_loop(injected: Any, history: History) -> None:
    assert injected.reads_a_session.enqueue().result(30) == "session"
    assert history.lines("session")[0]["thread"].startswith("lockwork-job")
    assert seen(history) == ["session", "session committed"]


@pytest.mark.parametrize(("task", "attempts"), [("fails", 2), ("fails_in_a_thread", 1)])
def test_failure_reaches_every_provider(injected: Any, history: History, task: str, attempts: int) -> None:
    """The session's provider swallows the exception; the connection's provider must still roll back."""
    with pytest.raises(JobFailed, match="ValueError: the task's own"):
        getattr(injected, task).enqueue().result(30)
    one = ["connect", "session", "session rolled back", "roll back", "disconnect"]
    assert seen(history) == one * attempts
    assert {line["error"] for line in history.lines("roll back")} == {"ValueError"}


@pytest.mark.parametrize(("task", "error"), [("too_slow", "CancelledError"), ("too_slow_in_a_thread", "JobTimeout")])
def test_dependencies_are_cleaned_up_after_a_timeout(injected: Any, history: History, task: str, error: str) -> None:
    with pytest.raises(JobFailed, match="JobTimeout: it took longer than 1 s"):
        getattr(injected, task).enqueue().result(30)
    assert seen(history) == ["connect", "session", "session rolled back", "roll back", "disconnect"]
    assert {line["error"] for line in history.lines("session rolled back")} <= {error, "JobTimeout"}


@pytest.mark.parametrize("task", ["provided_too_slowly", "provided_too_slowly_in_a_thread"])
def test_timeout_includes_providers(injected: Any, history: History, task: str) -> None:
    with pytest.raises(JobFailed, match="JobTimeout"):
        getattr(injected, task).enqueue().result(30)
    assert not history.lines("ran")
    assert len(history.lines("connect")) == len(history.lines("disconnect"))


@pytest.mark.parametrize("task", ["needs_what_fails", "needs_what_fails_in_a_thread"])
def test_failing_provider_fails_the_attempt(injected: Any, history: History, task: str) -> None:
    with pytest.raises(JobFailed, match="LookupError: nothing to give"):
        getattr(injected, task).enqueue().result(30)
    events = seen(history)
    assert "ran" not in events
    assert events[-1] in ("disconnect", "session rolled back")


@pytest.mark.parametrize(
    ("task", "error"), [("needs_what_exits", "SystemExit"), ("needs_what_is_interrupted", "KeyboardInterrupt")]
)
def test_provider_that_raises_system_exit_fails_its_attempt_only(
    app: Load, work: Any, history: History, task: str, error: str
) -> None:
    injected = app("injected")
    with work("injected") as process:
        with pytest.raises(JobFailed, match=f"{error}: no configuration"):
            getattr(injected, task).enqueue().result(30)
        assert injected.reads.enqueue(7).result(30)[0] == 7
        assert "ended (" not in process.errors
    assert seen(history)[0] == "exits"
    assert len(history.lines("pool")) == 1


@pytest.mark.parametrize("task", ["held_by_a_provider", "held_before_its_thread"])
def test_blocking_provider_ends_before_its_attempt(injected: Any, history: History, task: str) -> None:
    """Otherwise, the next attempt would run beside it, and other jobs would lack its thread."""
    with pytest.raises(JobFailed, match="JobTimeout"):
        getattr(injected, task).enqueue().result(30)
    assert seen(history) == ["held begins", "held ends"] * 2
    assert {line["error"] for line in history.lines("held ends")} == {"JobTimeout"}


def test_blocking_provider_is_cancelled_with_its_job(injected: Any, history: History) -> None:
    job = injected.held_for_ever.enqueue()
    history.wait(1, "held begins")
    assert job.cancel()
    with pytest.raises(JobCancelled):
        job.result(30)
    assert seen(history) == ["held begins", "held ends"]
    assert history.lines("held ends")[0]["error"] == "JobCancelled"


def test_failing_clean_up_fails_the_attempt(injected: Any, history: History) -> None:
    """A failed commit is no success."""
    with pytest.raises(JobFailed, match="ConnectionError: commit failed"):
        injected.cannot_commit.enqueue().result(30)


def test_worker_scope_lasts_as_long_as_the_worker(app: Load, work: Any, history: History) -> None:
    injected = app("injected")
    with work("injected") as process:
        assert len(history.wait(1, "pool")) == 1
        for number in range(5):
            assert injected.reads.enqueue(number).result(30)[1] == "connection of pool 1"
        assert not history.lines("pool closed")
        process.send(signal.SIGTERM)
        assert process.wait() == 0
    assert seen(history, pool=True)[-1] == "pool closed"
    assert (len(history.lines("pool")), len(history.lines("pool closed"))) == (1, 1)


def test_dependencies_of_a_returned_job_are_cleaned_up_first(
    app: Load, work: Any, history: History, tmp_path: Path
) -> None:
    injected = app("injected")
    with work("injected", "--grace", "100ms") as process:
        injected.held.enqueue(str(tmp_path / "never"))
        history.wait(1)
        process.send(signal.SIGTERM)
        assert process.wait() == 0
    assert seen(history, pool=True) == ["pool", "connect", "ran", "roll back", "disconnect", "pool closed"]
    assert injected.lw.queue().status().ready == 1


def test_concurrent_jobs_have_separate_dependencies(injected: Any, history: History, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    jobs = [injected.held.enqueue(str(gate)) for _ in range(3)]
    history.wait(3)
    assert {line["job"] for line in history.lines("connect")} == {job.id for job in jobs}
    gate.touch()
    assert {job.result(30) for job in jobs} == {"connection of pool 1"}
    until(lambda: len(history.lines("disconnect")) == 3, "all connections are cleaned up")


@pytest.mark.parametrize("task", ["held", "held_in_a_thread"])
def test_dependencies_of_a_cancelled_job_are_cleaned_up(
    injected: Any, history: History, tmp_path: Path, task: str
) -> None:
    arguments = [str(tmp_path / "never")] if task == "held" else []
    job = getattr(injected, task).enqueue(*arguments)
    history.wait(1)
    assert job.cancel()
    with pytest.raises(JobCancelled):
        job.result(30)
    rolled = ["session rolled back"] if task == "held_in_a_thread" else []
    begun = ["connect", "session", "ran"] if rolled else ["connect", "ran"]
    assert seen(history) == [*begun, *rolled, "roll back", "disconnect"]


def test_key_and_group_templates_work_with_injected_values(injected: Any) -> None:
    jobs = [injected.grouped.enqueue(number % 2) for number in range(4)]
    assert [job.result(30)[0] for job in jobs] == [0, 1, 0, 1]


def test_scheduled_jobs_get_injected_values(work: Any, history: History) -> None:
    with work("injected:scheduled"):
        assert history.wait(1, "tick")[0]["name"] == "provided"
