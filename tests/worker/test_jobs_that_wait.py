"""Jobs that wait for results of other jobs: announced, and reported when they occupy all slots of a queue."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from app_modules import Load
from dashboard.browsing import serving
from doctor.examined import Examined, examine
from lockwork import ResultTimeout, stuck
from lockwork.doctor.findings import findings
from lockwork.workers import Worker
from processes import Started, until, worker


@pytest.fixture
def waiting(own_url: str, load: Load, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The app's tasks, without a worker."""
    monkeypatch.setattr(stuck, "LEAST", 1.0)
    module: Any = load(own_url, "waiting")
    with module.lw:
        yield module


@pytest.fixture
def at_work(waiting: Any, own_url: str, apps: Path) -> Iterator[None]:
    with worker("waiting:lw", url=own_url, folder=apps):
        yield


def _announced(waiting: Any, wanted: Callable[[list[Worker]], object]) -> list[Worker]:
    found = until(lambda: some if (some := waiting.lw.workers()) and wanted(some) else None, "the workers say so")
    return found or []


def _serious(found: Examined) -> list[str]:
    return [f"{each.subject}: {each.text}" for each in found.findings if each.level == "serious"]


def _subjects(waiting: Any) -> list[str]:
    return [each.subject for each in findings(waiting.lw) if each.level == "serious"]


def _is_found(waiting: Any, process: Started, own_url: str, job: Any, task: str) -> None:
    (found,) = _announced(waiting, lambda found: found[0].waiting == found[0].slots == 1)
    (running,) = found.jobs
    assert (running.id, running.task) == (job.id, task)
    awaited = running.waits_for[0]
    assert awaited.queue == "default"
    expected = f"Job {job.id} of task {task} waits for job {awaited.id}."
    until(lambda: _subjects(waiting), "doctor finds it")
    taken = "Queue default: Its jobs cannot start: all slots of its workers are taken by jobs that wait for results."
    assert _serious(examine(own_url)) == [f"{taken} {expected}"]
    text = "every slot of this worker (1) has a job that waits for the result of a job that cannot start"
    until(lambda: text in process.errors, "the worker logs it")
    assert f"job {job.id} of task {task!r} waits for job {awaited.id} in queue 'default'" in process.errors
    assert process.errors.count(text) == 1


@pytest.mark.parametrize(
    "task", ["outer", "outer_on_loop", "outer_of_many", "outer_in_group", "outer_in_runner", "outer_of_flow"]
)
def test_job_that_waits_for_its_own_full_queue_is_found(waiting: Any, own_url: str, apps: Path, task: str) -> None:
    with worker("waiting:lw", "-c", "1", url=own_url, folder=apps) as process:
        job = getattr(waiting, task).enqueue()
        _is_found(waiting, process, own_url, job, task)
        with serving(own_url) as address:
            page = httpx.get(address, headers={"Accept": "text/html"}, follow_redirects=True).text
        assert "all slots of its workers are taken by jobs that wait for results" in page
        with worker("waiting:lw", "-c", "2", url=own_url, folder=apps):
            job.result(30)
            until(lambda: not _subjects(waiting), "all is well with another worker")


def test_batch_that_waits_is_found(waiting: Any, own_url: str, apps: Path) -> None:
    with worker("waiting:lw", "-c", "1", url=own_url, folder=apps) as process:
        job = waiting.outer_in_batch.enqueue(1)
        _is_found(waiting, process, own_url, job, "outer_in_batch")


def test_wait_for_a_runner_of_waiting_jobs_is_found(waiting: Any, own_url: str, apps: Path) -> None:
    """There are enough slots, but only one runner."""
    with worker("waiting:lw", "-c", "5", "--runners", "1", url=own_url, folder=apps) as process:
        job = waiting.outer_of_runners.enqueue()
        taken = "Its jobs cannot start: all runners are taken by jobs that wait for results."
        until(lambda: any(taken in each.text for each in findings(waiting.lw)), "doctor finds it")
        (expected,) = _serious(examine(own_url))
        assert f"Job {job.id} of task outer_of_runners waits for job" in expected
        until(lambda: "every runner has a job that waits for the result" in process.errors, "the worker logs it")


def test_chain_over_two_queues_is_found(waiting: Any, own_url: str, apps: Path) -> None:
    """Queue a waits for b, whose only slot waits for a."""
    with worker("waiting:lw", "-c", "1", "--queues", "a", url=own_url, folder=apps) as first:
        with worker("waiting:lw", "-c", "1", "--queues", "b", url=own_url, folder=apps) as second:
            job = waiting.of_a.enqueue(3)
            subjects = until(lambda: some if len(some := _subjects(waiting)) == 2 else None, "doctor finds both")
            assert sorted(subjects or ()) == ["Queue a", "Queue b"]
            for process in (first, second):
                until(lambda at=process: "a job that cannot start" in at.errors, "each worker logs it")  # type: ignore[misc]
            with worker("waiting:lw", "-c", "3", "--queues", "a,b", url=own_url, folder=apps):
                assert job.result(30) == 0


def test_wait_for_job_on_another_worker_is_no_finding(waiting: Any, own_url: str, apps: Path, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with worker("waiting:lw", "-c", "1", "--queues", "a", "-p", "2", url=own_url, folder=apps) as process:
        job = waiting.waits_for_a_slow_job.enqueue(str(gate))
        _announced(
            waiting,
            lambda found: (
                found[0].busy == 2 and any(job.waits_for and job.waits_for[0].seconds > 2 for job in found[0].jobs)
            ),
        )
        assert _serious(examine(own_url)) == []
        gate.touch()
        job.result(30)
        assert "cannot start" not in process.errors


def test_result_without_a_timeout_or_a_worker_is_logged_once(
    waiting: Any, own_url: str, apps: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job = waiting.inner.enqueue(1)
    with ThreadPoolExecutor(1) as pool:
        ending = pool.submit(job.result)
        (expected,) = until(
            lambda: [each for each in caplog.messages if "waits without a timeout" in each], "it is logged"
        )
        assert expected == (
            f"result() of job {job.id} waits without a timeout, and no worker serves queue 'default': start a worker, "
            "or pass a timeout"
        )
        with pytest.raises(ResultTimeout):
            job.result(6)
        with worker("waiting:lw", url=own_url, folder=apps):
            assert ending.result(30) == 1
    assert caplog.text.count("waits without a timeout") == 1


async def test_flow_without_a_worker_is_logged(waiting: Any, caplog: pytest.LogCaptureFixture) -> None:
    flow = waiting.lw.flow()
    flow.add(waiting.inner.call(1))
    run = await flow.aenqueue()
    ending = asyncio.create_task(run.aresult())
    while f"result() of flow {run.id} waits without a timeout" not in caplog.text:
        await asyncio.sleep(0.02)
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending


@pytest.mark.usefixtures("at_work")
def test_result_with_a_worker_is_not_logged(waiting: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    gate = tmp_path / "gate"
    job = waiting.waits_for_a_file.enqueue(str(gate))
    with ThreadPoolExecutor(1) as pool:
        ending = pool.submit(job.result)
        with pytest.raises(ResultTimeout):
            job.result(6)
        gate.touch()
        ending.result(30)
    assert "waits without a timeout" not in caplog.text
