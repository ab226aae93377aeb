"""Jobs that ignore their timeout: it is raised again, logged, counted and shown, and interrupts no clean-up."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest

from app_modules import Load
from clients import client_of
from dashboard.browsing import serving
from history import History
from lockwork import JobFailed, Lockwork
from processes import Started, started, until, worker

_AGAIN = 0.2


@pytest.fixture
def overrun(own_url: str, load: Load, history: History) -> Iterator[Any]:
    """The app's tasks, without a worker."""
    module: Any = load(own_url, "overrun")
    with module.lw:
        yield module


@pytest.fixture
def at_work(overrun: Any, own_url: str, apps: Path) -> Iterator[Started]:
    with worker("overrun:lw", "-c", "4", url=own_url, folder=apps) as process:
        yield process


def _enqueued(overrun: Any, task: str, path: str, times: int) -> Any:
    given = ((path, times),) if "batch" in task else (path, times)
    return getattr(overrun, task).enqueue(*given)


_SWALLOWING = [
    "swallows",
    "swallows_in_thread",
    "swallows_in_runner",
    "swallows_on_loop_of_runner",
    "swallows_in_batch",
    "swallows_in_batch_in_thread",
]


@pytest.mark.parametrize("task", _SWALLOWING)
def test_ignored_timeout_is_raised_again_at_doubling_intervals(
    overrun: Any, at_work: Started, history: History, task: str
) -> None:
    job = _enqueued(overrun, task, history.path, 4)
    assert job.result(30) == 4
    first, second, third = (later["at"] - earlier["at"] for earlier, later in pairwise(history.lines("raised")))
    # a busy machine may deliver one interrupt late and the next one in time
    assert first >= _AGAIN / 2
    assert second >= _AGAIN
    assert third >= 2 * _AGAIN
    _is_shown_as_overrun(overrun.lw, job, task)
    text = until(lambda: errors if "returned" in (errors := at_work.errors) else "", "the end is logged")
    assert text.count("the time-out is raised again") == 3
    assert text.count(f"job {job.id} of task {task!r} still runs") == 3
    assert text.count(f"job {job.id} of task {task!r} returned") == 1
    if task.endswith("thread") or task == "swallows_in_runner":
        assert "overrun.py, line" in text


def _is_shown_as_overrun(lw: Lockwork, job: Any, task: str) -> None:
    seen = job.inspect()
    assert (seen.state, seen.overran, seen.error, seen.attempts) == ("succeeded", True, None, 1)
    assert [(each.outcome, each.overran) for each in seen.timeline] == [("succeeded", True)]
    point = until(
        lambda: found if (found := lw.task_metrics(span="1h").get(("default", task))) and found.overran else None,
        "the overrun is counted",
    )
    assert point is not None
    assert (point.overran, point.succeeded, point.failed) == (1, 1, 0)


@pytest.mark.parametrize("task", _SWALLOWING)
def test_value_returned_after_a_swallowed_timeout_is_a_success_that_overran(
    overrun: Any, at_work: Started, history: History, task: str
) -> None:
    job = _enqueued(overrun, task, history.path, 1)
    assert job.result(30) == 1
    _is_shown_as_overrun(overrun.lw, job, task)
    assert "raised again" not in at_work.errors
    assert f"job {job.id} of task {task!r} returned" in at_work.errors


def test_timeout_that_ends_the_job_is_no_overrun(overrun: Any, at_work: Started) -> None:
    job = overrun.fails_on_time.enqueue()
    with pytest.raises(JobFailed, match="JobTimeout: it took longer than 0.1 s"):
        job.result(30)
    assert not job.inspect().overran
    point = until(lambda: overrun.lw.task_metrics(span="1h").get(("default", "fails_on_time")), "it is counted")
    until(lambda: overrun.lw.task_metrics(span="1h")["default", "fails_on_time"].run.count, "its time is sent")
    assert (point.failed, overrun.lw.task_metrics(span="1h")["default", "fails_on_time"].overran) == (1, 0)
    assert "its timeout of" not in at_work.errors


@pytest.mark.usefixtures("at_work")
def test_job_that_ends_late_with_the_timeout_fails_and_is_counted(overrun: Any, history: History) -> None:
    job = overrun.gives_in_late.enqueue(history.path)
    with pytest.raises(JobFailed, match="JobTimeout: it took longer than 0.1 s"):
        job.result(30)
    assert not job.inspect().overran
    until(lambda: overrun.lw.task_metrics(span="1h")["default", "gives_in_late"].overran == 1, "it is counted")


@pytest.mark.parametrize("task", ["provided", "provided_in_thread"])
@pytest.mark.usefixtures("at_work")
def test_clean_up_of_providers_and_middlewares_is_not_interrupted(overrun: Any, history: History, task: str) -> None:
    job = getattr(overrun, task).enqueue(history.path)
    assert job.result(30) == 1
    assert len(history.lines("raised")) == 1
    assert len(history.lines("session closed")) == len(history.lines("middleware closed")) == 1


@pytest.mark.usefixtures("at_work")
def test_release_of_a_lock_is_not_interrupted(overrun: Any, history: History, own_url: str) -> None:
    """The server does not answer the release during several intervals between time-outs."""
    job = overrun.holds_a_lock.enqueue(history.path)
    history.wait(1, "holds")
    with client_of(own_url) as admin:
        admin.client_pause(3000)
    with pytest.raises(JobFailed, match="JobTimeout"):
        job.result(30)
    with overrun.lw.lock("guarded", wait="5s"):
        pass


@pytest.mark.usefixtures("at_work")
def test_command_line_and_dashboard_show_an_overrun(overrun: Any, history: History, own_url: str, apps: Path) -> None:
    job = overrun.swallows.enqueue(history.path, 1)
    assert job.result(30) == 1
    with started([sys.executable, "-m", "lockwork", "job", job.id], folder=apps, url=own_url) as command:
        assert command.wait() == 0
        assert command.process.stdout is not None
        text = command.process.stdout.read().decode()
    assert "ignored: the job overran" in text
    assert "succeeded, overran" in text
    with serving(own_url) as address:
        page = httpx.get(f"{address}/job/{job.id}?queue=default", headers={"Accept": "text/html"}).text
    assert "ignored: the job overran" in page
    assert '<span class="tag">overran</span>' in page
