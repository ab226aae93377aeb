"""Named bugs of other queues: tasks, their functions and their options."""

from __future__ import annotations

import inspect
import os
import signal
import typing
from pathlib import Path
from typing import Any

import pytest

from history import History
from lockwork import JobFailed, Lockwork
from lockwork.runtime.embedded import Embedded
from processes import worker
from replicated import replicated


def _of_path(path: str) -> Any: ...


def _of_gate(path: str, gate: str) -> Any: ...


def _of_nothing() -> Any: ...


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> History:
    path = tmp_path / "history"
    monkeypatch.setenv("NOTES", str(path))
    return History(path)


def test_celery_6552_coroutines_share_a_loop(spoiled: Embedded, apps: Path, history: History, tmp_path: Path) -> None:
    """celery#6552, #3884, #7874, dramatiq#238: no `async def`, or one loop for each. Here, twenty wait at once in one
    process."""
    gate = tmp_path / "gate"
    with Lockwork(spoiled.url) as lw, worker("named:lw", "-c", "20", url=spoiled.url, folder=apps):
        sent = lw.task(name="gated")(_of_gate).enqueue_many([(history.path, str(gate))] * 20)
        assert len({line["pid"] for line in history.wait(20)}) == 1
        gate.touch()
        assert [job.result(30) for job in sent] == [1] * 20


@pytest.mark.parametrize("task", ["hidden", "hidden_without_a_result"])
def test_celery_10634_a_coroutine_is_no_result(spoiled: Embedded, apps: Path, history: History, task: str) -> None:
    """celery#10634:

    a coroutine that was never awaited counted as success if its result was ignored; elsewhere the serializer was
    blamed. Any function whose decorator ignores `async` has this problem.
    """
    with Lockwork(spoiled.url) as lw, worker("named:lw", url=spoiled.url, folder=apps) as process:
        job = lw.task(name=task, retries=0)(_of_path).enqueue(history.path)
        with pytest.raises(JobFailed, match=f"TypeError: task '{task}' returned a coroutine that is never awaited"):
            job.result(30)
        assert "was never awaited" not in process.errors
    assert not history.lines("ran")


def test_rq_210_no_job_costs_a_process(spoiled: Embedded, apps: Path, history: History) -> None:
    """rq#210, #935, #745, frappe#31283:

    a fork per job makes connection pools useless. Here each process creates its resources once, also for tasks that
    run in runner processes.
    """
    with Lockwork(spoiled.url) as lw, worker("forkless:lw", "--runners", "1", url=spoiled.url, folder=apps) as process:
        pids = {}
        for task in ("query", "query_alone"):
            sent = lw.task(name=task)(_of_nothing).enqueue_many([()] * 50)
            pids[task] = {job.result(30) for job in sent}
        assert pids["query"] == set(process.children())
    assert len(pids["query_alone"]) == 1
    assert [{line["pid"]} for line in history.lines("made")] == [pids["query"], pids["query_alone"]]


def test_celery_6186_a_task_is_annotated_as_its_function() -> None:
    """celery#6186: a task had no annotations. tests/typing checks the types."""
    lw = Lockwork("redis://nowhere")

    @lw.task(retries=1)
    def send(user: int, text: str = "hello") -> list[str]:
        """Send it."""
        return [text] * user

    for task in (send, send.options(delay="1s")):
        assert typing.get_type_hints(task) == {"user": int, "text": str, "return": list[str]}
        assert list(inspect.signature(task).parameters) == ["user", "text"]
        assert (task.__name__, task.__doc__) == ("send", "Send it.")  # type: ignore[attr-defined]
        assert task.__module__ == __name__
        assert task(2) == ["hello", "hello"]


def test_asynq_373_replicated_jobs_survive_the_primary(apps: Path, history: History, tmp_path: Path) -> None:
    """asynq#373 requests WAIT at enqueue:

    acknowledged jobs were gone after a failover (redis#6062). With `replicas=1`, an enqueued job is still there when
    the replica takes over. (More: tests/together.).
    """
    with replicated(tmp_path / "servers") as pair:
        with Lockwork(pair.url) as lw:
            mark = lw.task(name="mark", retries=3, replicas=1)(_of_path)
            sent = [*mark.enqueue_many([(history.path,)] * 50), mark.enqueue(history.path)]
            os.kill(int(pair.primary.info("server")["process_id"]), signal.SIGKILL)
        pair.replica.replicaof("NO", "ONE")
        with Lockwork(pair.replica_url) as promoted, worker("named:lw", url=pair.replica_url, folder=apps):
            assert [promoted.job(job.id).result(30) for job in sent] == [1] * 51
    assert len(history.lines("ran")) == 51
