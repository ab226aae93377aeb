"""Calls of tasks that somebody else enqueues: a stock, a schedule, a lock, a flow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from lockwork.errors import ConfigError
from lockwork.protocol.queues.enqueue import NewJob
from lockwork.tasks.result_refs import ResultRef

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class TaskCall:
    """A call of a task that somebody else will enqueue, for instance a stock in one step with a reservation."""

    queue: str
    record: bytes
    delay_ms: int

    def job(self, id: str) -> NewJob:
        """The call as a job."""
        return NewJob(id, self.record, self.delay_ms)


@dataclass(frozen=True, slots=True)
class ResultCall(TaskCall, Generic[R]):
    """A call with what a flow needs to know: whose results it gets as arguments, and what its own is."""

    task: str
    returns: Any
    keeps_result: bool
    uses: tuple[ResultRef, ...]

    def job(self, id: str) -> NewJob:
        """The call as a job; raises ConfigError when it waits for others."""
        if self.uses:
            raise ConfigError(f"this call of {self.task!r} uses results of a flow's jobs: add it to that flow")
        return NewJob(id, self.record, self.delay_ms)
