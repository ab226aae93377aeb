"""A job without a worker, for a test that calls a task function."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from lockwork.jobs.current import JobContext
from lockwork.jobs.fake import FakeJobContext, NoteLog, in_slot, serverless_queue
from lockwork.tasks.task import Task
from lockwork.validation import whole

_MOST = 1_000_000


class FakeJob:
    """What a job did in the block of `fake_job`."""

    def __init__(self, context: FakeJobContext) -> None:
        self._context = context
        self._log = context.log

    @property
    def context(self) -> JobContext:
        """The job that `current_job()` returns in the block."""
        return self._context

    @property
    def progress(self) -> list[Any]:
        """All progress values, as JSON keeps them, in order."""
        return list(self._log.progress)

    @property
    def checkpoints(self) -> dict[str, Any]:
        """The checkpoints of earlier attempts, and those of this one, as JSON keeps them."""
        return dict(self._log.checkpoints)

    @property
    def retries(self) -> list[float | None]:
        """The delay in seconds of each call of `retry`; None without a delay."""
        return list(self._log.retries)

    @property
    def snoozes(self) -> list[float]:
        """The delay in seconds of each call of `snooze`."""
        return list(self._log.snoozes)

    def cancel(self) -> None:
        """Set `cancelled`, as for a job that is being cancelled; nothing is interrupted."""
        self._context.cancelled = True

    def end_delivery(self) -> None:
        """From now on, `progress` and `checkpoint` raise DeliveryOver, as if another worker ran the job."""
        self._log.over = True

    def __repr__(self) -> str:
        return f"<FakeJob {self._context.id} attempt={self._context.attempt}>"


@contextmanager
def fake_job(
    task: Task[..., Any, Any] | None = None,
    /,
    *,
    attempt: int = 1,
    checkpoints: Mapping[str, object] | None = None,
    headers: Mapping[str, str] | None = None,
    tags: Sequence[str] = (),
    id: str = "job",
    fence: int = 1,
) -> Iterator[FakeJob]:
    """Run the block as a job: `current_job()` works, in threads and asyncio tasks that it starts, too.

    Put it around a call of a task function, `task.run(...)` or `await task.arun(...)`. Values are checked and encoded
    as in a worker. `retry` and `snooze` raise `lockwork.types.Again`, as in a worker. No server is used.

    Args:
        task: the job's task. Default: that of the first `run` or `arun` in the block.
        attempt: the number of the attempt. Default 1.
        checkpoints: the checkpoints of earlier attempts, by name. Default none.
        headers: the headers that enqueue middlewares added. Default none.
        tags: labels of the job. Default: those of the task.
        id: the job's id. Default "job".
        fence: the fence of the delivery. Default 1.

    Raises ConfigError for values that a job cannot have.
    """
    context = FakeJobContext(
        NoteLog(),
        queue_context=serverless_queue("default"),
        id=id,
        attempt=whole(attempt, "attempt", 1, _MOST),
        fence=whole(fence, "fence", 0, 1 << 62),
        checkpoints=checkpoints,
        headers=headers,
        tags=tags,
    )
    if task is not None:
        context.run_as(task.name, task.queue_context(), task.options_in_force.tags)
    with in_slot(context):
        yield FakeJob(context)
