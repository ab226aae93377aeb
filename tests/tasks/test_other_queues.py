"""`options(queue=...)`: a job in another queue than its task's own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Annotated

import pytest
from click.testing import CliRunner

from lockwork import ConfigError, Depends, JobFailed, Lockwork, current_job
from lockwork.cli.commands import cli
from lockwork.errors import QueueFull
from lockwork.testing import record
from lockwork.types import INJECTED
from processes import until


@contextmanager
def working(app: Lockwork, *queues: str) -> Iterator[None]:
    """Run a worker of the app in this process."""
    worker = app.worker(queues=queues)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        thread.join()


@pytest.mark.parametrize("named", [["urgent"], []])
def test_worker_of_another_queue_runs_the_job(lw: Lockwork, named: list[str]) -> None:
    provided: list[str] = []

    def provider() -> str:
        provided.append("once")
        return "shared"

    @lw.task(other_queues=named)
    def send(user: int, *, shared: Annotated[str, Depends(provider, scope="worker")] = INJECTED) -> tuple[str, str]:
        return current_job().queue, shared

    urgent, plain = send.options(queue="urgent").enqueue(1), send.enqueue(2)
    assert (urgent.queue, plain.queue) == ("urgent", "default")
    assert lw.queue("urgent").status().ready == 1
    with working(lw, "urgent"):
        assert urgent.result(timeout=10) == ("urgent", "shared")
        assert send.options(queue="urgent").enqueue(3).result(timeout=10) == ("urgent", "shared")
    assert provided == ["once"], "its worker-scoped dependency was set up once"
    assert plain.state() == "ready"
    assert send.options(queue="urgent").job(urgent.id).state() == "succeeded"
    assert lw.job(urgent.id).state() == "succeeded"


def test_failed_dependency_of_an_unnamed_queue_is_set_up_again(lw: Lockwork) -> None:
    tries: list[int] = []

    def provider() -> int:
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError("not yet")
        return len(tries)

    @lw.task(backoff="10ms")
    def send(*, shared: Annotated[int, Depends(provider, scope="worker")] = INJECTED) -> int:
        return shared

    job = send.options(queue="urgent").enqueue()
    with working(lw, "urgent"):
        assert job.result(timeout=10) == 2


def test_name_of_the_queue_is_checked(lw: Lockwork) -> None:
    @lw.task(other_queues=["urgent"])
    def send() -> None: ...

    with pytest.raises(ConfigError, match="must not hold a slash"):
        send.options(queue="urgent/1")
    with pytest.raises(ConfigError, match="must be 1 to 200 characters"):
        send.options(queue="")
    with pytest.raises(ConfigError, match="other_queues must be a list of queues"):
        lw.task(other_queues="urgent")
    moved = send.options(queue="urgent")
    assert moved.options(queue="default").enqueue().queue == "default"
    assert moved.options(priority="high").enqueue().queue == "urgent"


def test_worker_without_the_task_leaves_the_job_to_another(lw: Lockwork, other: Lockwork) -> None:
    @lw.task
    def send(user: int) -> int:
        return user

    other.task(name="else")(print)
    job = send.options(queue="urgent").enqueue(1)
    with working(other, "urgent"):
        until(lambda: lw.queue("urgent").status().scheduled == 1, "the job returns to the queue")
        assert job.attempts() == 0
        with working(lw, "urgent"):
            assert job.result(timeout=15) == 1


def test_worker_with_an_old_signature_leaves_the_job_to_the_new_version(own_url: str) -> None:
    with Lockwork(own_url, app_name="shop") as old, Lockwork(own_url, app_name="shop", app_version="2") as new:

        @old.task(name="send")
        def before(user: int) -> str:
            return "old"

        @new.task(name="send")
        def after(user: int, subject: str) -> str:
            return "new"

        job = after.options(queue="urgent").enqueue(1, "hi")  # it announces the new version
        with working(old, "urgent"):
            until(lambda: old.queue("urgent").status().scheduled == 1, "the job returns to the queue")
            with working(new, "urgent"):
                assert job.result(timeout=15) == "new"
        assert job.inspect().attempts in (None, 0, 1)


def test_unique_names_and_keys_belong_to_one_queue(lw: Lockwork) -> None:
    @lw.task(unique="{user}", key="{user}")
    def send(user: int) -> None: ...

    urgent = send.options(queue="urgent")
    first, second = send.enqueue(1), urgent.enqueue(1)
    assert (first.new, second.new, urgent.enqueue(1).id, send.enqueue(1).id) == (True, True, second.id, first.id)
    moved = lw.task(name="turns", key="{user}")(send.function).options(queue="urgent")
    jobs = moved.enqueue_many([(2,), (2,)])
    assert [job.inspect().key for job in jobs] == ["2", "2"]


def test_limits_are_those_of_the_jobs_queue(lw: Lockwork) -> None:
    @lw.task
    def send(user: int) -> int:
        return user

    lw.queue("urgent").limit(size=1)
    send.options(queue="urgent").enqueue(1)
    with pytest.raises(QueueFull):
        send.options(queue="urgent").enqueue(2)
    assert send.enqueue(2).new
    lw.queue("urgent").limit(size=None)


def test_failed_job_stays_in_its_queue(lw: Lockwork) -> None:
    @lw.task(queue="mail", retries=1, backoff="10ms")
    def send(user: int) -> None:
        raise LookupError(current_job().queue)

    job = send.options(queue="urgent").enqueue(1)
    with working(lw, "urgent"):
        with pytest.raises(JobFailed, match="urgent"):
            job.result(timeout=10)
        assert [each.id for each in lw.queue("urgent").dead.search().jobs] == [job.id]
        assert lw.queue("mail").status().dead == 0
        assert job.retry()
        with pytest.raises(JobFailed):
            job.result(timeout=10)
    assert job.attempts() == 2


def test_lists_show_the_job_in_its_queue(lw: Lockwork) -> None:
    @lw.task(queue="mail", hide_arguments=True)
    def send(user: int) -> int:
        return user

    job = send.options(queue="urgent").enqueue(1)
    assert [row.id for row in lw.jobs("urgent").jobs] == [job.id]
    assert job.inspect().hidden
    with working(lw, "urgent"):
        assert job.result(timeout=10) == 1
    (row,) = lw.jobs("urgent", state="succeeded").jobs
    assert (row.id, row.queue, row.task) == (job.id, "urgent", "send")
    assert ("urgent", "send") in lw.task_metrics()


def test_schedules_and_flows_of_another_queue(lw: Lockwork) -> None:
    @lw.task(queue="mail")
    def double(number: int) -> int:
        return number * 2

    @lw.task(queue="files")
    def store(number: int) -> str:
        return f"{number} in {current_job().queue}"

    flow = lw.chain(double.call(1), store.options(queue="mail")).enqueue()
    schedule = lw.create_schedule(
        store.options(queue="mail").call(3), name="evening", at=datetime.now(UTC) + timedelta(hours=1)
    )
    assert [each.name for each in lw.schedules("mail")] == ["evening"]
    job = schedule.run_now()
    assert job is not None
    with working(lw, "mail"):
        assert flow.result(timeout=10) == "2 in mail"
        assert job.result(timeout=10) == "3 in mail"
    schedule.delete()


def test_doctor_reports_a_queue_that_no_worker_serves(own_url: str) -> None:
    with Lockwork(own_url, app_name="shop") as app:
        app.task(name="send")(print).options(queue="urgnet").enqueue()
        found = CliRunner().invoke(cli, ["doctor", "--url", own_url])
        assert "Queue urgnet" in found.output
        assert "lockwork worker shop --queues urgnet" in found.output or "MODULE:OBJECT --queues urgnet" in found.output


async def test_async_and_many(alw: Lockwork) -> None:
    @alw.task
    def send(user: int) -> None: ...

    moved = send.options(queue="urgent")
    jobs = [await moved.aenqueue(1), *await moved.aenqueue_many([(2,), (3,)])]
    assert {job.queue for job in jobs} == {"urgent"}


def test_other_queue_has_its_partitions(url: str) -> None:
    with Lockwork(url, partitions={"urgent": 3}) as app:

        @app.task
        def send(user: int) -> None: ...

        jobs = send.options(queue="urgent", key="{user}").enqueue_many([(each,) for each in range(50)])
        assert {job.queue for job in jobs} == {"urgent/0", "urgent/1", "urgent/2"}
        assert send.options(queue="urgent").job(jobs[0].id).state() == "ready"
        with pytest.raises(ConfigError, match="could decide two of them"):
            send.options(queue="urgent", key="{user}", group="group:{user}")


def test_announcement_names_all_queues(url: str) -> None:
    with Lockwork(url, app_name="shop") as app:

        @app.task(other_queues=["urgent"], hide_arguments=True)
        def send(user: int) -> None: ...

        assert app.registry.queues() == ["default", "urgent"]
        assert [task.name for task in app.registry.of(["urgent"])] == ["send"]
        send.options(queue="urgent").enqueue(1)
        ((announced,),) = [each.tasks for each in app.apps()]
        assert (announced.queues, announced.hidden) == (["default", "urgent"], True)
        job = app.queue("urgent").peek(1)[0]
        assert job.call is not None
        assert job.call.hidden


def test_recording_finds_the_job_in_its_queue(lw: Lockwork) -> None:
    @lw.task
    def send(user: int) -> None: ...

    with record() as recording:
        send.options(queue="urgent").enqueue(1)
    recording.assert_enqueued(send, args=(1,), queue="urgent")
