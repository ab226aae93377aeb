"""`options(queue=...)`: a job in another queue than its task's own."""

from __future__ import annotations

import threading
from typing import Annotated

import pytest

from lockwork import ConfigError, Depends, Lockwork, current_job
from lockwork.testing import record
from lockwork.types import INJECTED


def test_worker_of_another_queue_runs_the_job(lw: Lockwork) -> None:
    provided: list[str] = []

    def provider() -> str:
        provided.append("once")
        return "shared"

    @lw.task(other_queues=["urgent"])
    def send(user: int, *, shared: Annotated[str, Depends(provider, scope="worker")] = INJECTED) -> tuple[str, str]:
        return current_job().queue, shared

    urgent, plain = send.options(queue="urgent").enqueue(1), send.enqueue(2)
    assert (urgent.queue, plain.queue) == ("urgent", "default")
    assert lw.queue("urgent").status().ready == 1
    worker = lw.worker(queues=["urgent"])
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        assert urgent.result(timeout=10) == ("urgent", "shared")
    finally:
        worker.stop()
        thread.join()
    assert provided == ["once"], "its worker-scoped dependency was there"
    assert plain.state() == "ready"
    assert send.job(urgent.id).state() == "succeeded"


def test_queue_that_the_task_does_not_name_is_refused(lw: Lockwork) -> None:
    @lw.task(other_queues=["urgent"])
    def send() -> None: ...

    with pytest.raises(ConfigError, match="did you mean 'urgent'"):
        send.options(queue="urgnt")
    with pytest.raises(ConfigError, match="add it to the task's other_queues"):
        send.options(queue="x")
    with pytest.raises(ConfigError, match="must not hold a slash"):
        send.options(queue="urgent/1")
    with pytest.raises(ConfigError, match="other_queues must be a list of queues"):
        lw.task(other_queues="urgent")
    moved = send.options(queue="urgent")
    assert moved.options(queue="default").enqueue().queue == "default"
    assert moved.options(priority="high").enqueue().queue == "urgent"


async def test_async_and_many(alw: Lockwork) -> None:
    @alw.task(other_queues=["urgent"])
    def send(user: int) -> None: ...

    moved = send.options(queue="urgent")
    jobs = [await moved.aenqueue(1), *await moved.aenqueue_many([(2,), (3,)])]
    assert {job.queue for job in jobs} == {"urgent"}


def test_other_queue_has_its_partitions(url: str) -> None:
    with Lockwork(url, partitions={"urgent": 3}) as app:

        @app.task(other_queues=["urgent"])
        def send(user: int) -> None: ...

        jobs = send.options(queue="urgent", key="{user}").enqueue_many([(each,) for each in range(50)])
        assert {job.queue for job in jobs} == {"urgent/0", "urgent/1", "urgent/2"}
        assert send.job(jobs[0].id).state() == "ready"
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
    @lw.task(other_queues=["urgent"])
    def send(user: int) -> None: ...

    with record() as recording:
        send.options(queue="urgent").enqueue(1)
    recording.assert_enqueued(send, args=(1,), queue="urgent")
