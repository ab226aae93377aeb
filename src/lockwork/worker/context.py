"""What a running job knows about itself."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JobContext:
    """The delivery under way: `attempt` counts from 1; `fence` is higher than that of any earlier delivery."""

    id: str
    task: str
    queue: str
    attempt: int
    fence: int


class Slot:
    """Where one lane of a worker keeps the job in its hands; tasks and threads that the job starts see it too."""

    __slots__ = ("job",)

    def __init__(self) -> None:
        self.job: JobContext | None = None


slot: ContextVar[Slot | None] = ContextVar("lockwork_job", default=None)


def current_job() -> JobContext:
    """Return the job that this code runs for; raises RuntimeError outside of a worker's job."""
    mine = slot.get()
    if mine is None or mine.job is None:
        raise RuntimeError("no job is running here: current_job() works inside a task that a worker runs")
    return mine.job
