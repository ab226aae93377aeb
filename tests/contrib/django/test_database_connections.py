"""Each call of a worker ends as a request does, in the thread that ran it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from django_project import START, DjangoProject
from lockwork import Lockwork
from lockwork.runtime.embedded import start_private
from processes import until

JOBS = 50


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DjangoProject]:
    """A project with a worker whose threads keep their connections; JOBS jobs of `together` wait for each other."""
    with start_private(tmp_path_factory.mktemp("server")) as server, pytest.MonkeyPatch.context() as patch:
        project = DjangoProject(tmp_path_factory.mktemp("project"), server.url, patch)
        project.configure({}, PROJECT_JOBS=str(JOBS))
        with project.manage("lockwork", "worker", "--concurrency", str(JOBS), "--skip-checks") as worker:
            until(lambda: "works on default" in worker.errors, "the worker is ready", START)
            yield project
            assert "could not be closed" not in worker.errors


@pytest.fixture
def project(running: DjangoProject) -> Iterator[DjangoProject]:
    """The running project."""
    with Lockwork(running.url) as running.lw:
        yield running


def open_connections(project: DjangoProject) -> int:
    """Return how many connections the worker process has."""
    found: int = project.task("open_files").enqueue().result(timeout=30)
    return found


@pytest.mark.parametrize("task", ["together", "atogether"])
def test_parallel_jobs_leave_no_connections(project: DjangoProject, task: str) -> None:
    jobs = project.task(task, "order").enqueue_many([(project.insert(),) for _ in range(JOBS)])
    for job in jobs:
        job.result(timeout=60)
    until(lambda: open_connections(project) == 0, "all connections are closed")
    assert project.state(JOBS) == "together"


@pytest.mark.parametrize("task", ["provided", "aprovided"])
def test_hooks_providers_and_lifespans_leave_no_connections(project: DjangoProject, task: str) -> None:
    assert project.task(task).enqueue().result(timeout=30) >= 0
    until(lambda: open_connections(project) == 0, "all connections are closed")


def test_cancelled_job_leaves_no_connection(project: DjangoProject) -> None:
    """With plain `sync_to_async`, the connection of a cancelled caller stays open for ever."""
    job = project.task("atoo_long").enqueue()
    until(lambda: job.state() == "dead", "the job timed out")
    until(lambda: open_connections(project) == 0, "its connection is closed")


@pytest.mark.parametrize("task", ["speak", "aspeak"])
def test_language_and_time_zone_end_with_the_job(project: DjangoProject, task: str) -> None:
    speak = project.task(task)
    assert [speak.enqueue().result(timeout=30) for _ in range(3)] == [["en", "America/Chicago"]] * 3


def test_jobs_succeed_after_all_persistent_connections_broke(project: DjangoProject) -> None:
    order = project.insert()
    keep = project.task("keep_connections", "order", "keep")
    for job in keep.enqueue_many([(order, True)] * JOBS):
        job.result(timeout=60)
    assert open_connections(project) > JOBS / 2
    broken = project.task("break_connection", "order").enqueue_many([(order,)] * JOBS)
    until(lambda: all(job.state() == "dead" for job in broken), "all connections are broken")
    jobs = project.task("ship", "order").enqueue_many([(order,)] * 2 * JOBS)
    assert {job.result(timeout=60) for job in jobs} == {f"shipped {order}"}
    assert [job.inspect().attempt for job in jobs] == [1] * 2 * JOBS
    for job in keep.enqueue_many([(order, False)] * JOBS):
        job.result(timeout=60)
