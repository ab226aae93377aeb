"""Objects that the executors of a process share, or its fetcher and other users of its session; and fetch options."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from msgspec import Struct

from lockwork.config import Config
from lockwork.injection.calling import Caller
from lockwork.runtime.async_driver import AsyncDriver
from lockwork.tasks.registry import Registry
from lockwork.worker.execution.foreign_calls import TasksOfApp
from lockwork.worker.execution.job_log import JobLog
from lockwork.worker.execution.queue_state import FetchOrder, strict
from lockwork.worker.execution.runner_pool import RunnerPool
from lockwork.worker.execution.slots import WorkerSlots
from lockwork.worker.execution.threads import ThreadPool


class ExecutionContext(Struct, frozen=True):
    """The parts of a worker process or runner that the executors of all its queues share."""

    registry: Registry
    config: Config
    threads: ThreadPool
    caller: Caller
    slots: WorkerSlots
    job_log: JobLog
    runner_pool: RunnerPool | None = None
    """Runs the jobs of `executor="process"` tasks; None in a runner, which runs them itself."""


class SessionContext(Struct, frozen=True):
    """The session under which a worker process leases jobs, and the slots that these jobs take."""

    driver: AsyncDriver
    session: str
    channel: str
    """Channel for the wake-ups of the process."""
    slots: WorkerSlots
    window_ms: int
    """The app's `result_ttl` in milliseconds."""


class FetchOptions(Struct, frozen=True):
    """Options of a fetcher, derived from the options of its worker."""

    fetch_order: FetchOrder = strict
    max_jobs: int | None = None
    """Number of jobs until the fetcher ends."""
    settled: Callable[[], Coroutine[Any, Any, bool]] | None = None
    """Function of a burst that waits until the server has all outcomes. With it, the fetcher ends when no queue has a
    job that can run now."""
    recycle_after: int | None = None
    """Number of jobs until `on_recycle` is called, once."""
    on_recycle: Callable[[], None] = lambda: None
    ending: Callable[[], bool] = lambda: False
    """Return True if the process must end or be quiet, or if its supervisor is gone and no longer renews the session.
    From then on the fetcher leases nothing, and no job starts."""
    shards: bool = False
    """True if the queues are on several servers. Some of the servers may be unreachable."""
    known_tasks: TasksOfApp | None = None
    """The tasks whose parked jobs are claimed."""
    suspects: bool = False
    """True if the session runs a single job (--once): that job may be a suspect."""
    lease: float | None = None
    """Lease of the session in seconds; without it, the session never rejoins a queue."""
