"""Distributed locks and work queues for Python, on Redis or Valkey."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # the app
    from lockwork.app.lockwork import Lockwork

    # what went wrong
    from lockwork.errors import (
        ConfigError,
        JobFailed,
        LimitReached,
        LockLost,
        LockTimeout,
        LockworkError,
        NotHeld,
        PayloadTooLarge,
        RateLimited,
        ReservationEnded,
        ResultTimeout,
        ResultUnavailable,
        ServerRefused,
        ServerUnavailable,
        ServerUnsuitable,
        SoldOut,
        StaleFence,
        UnknownTask,
        WaitTimeout,
    )

    # injected parameters of task functions
    from lockwork.injection import Depends

    # inside a worker
    from lockwork.jobs.current import JobContext, current_job, current_jobs

    # results of the app's methods, for annotations
    from lockwork.jobs.job import Job
    from lockwork.locks import Grant, Lock
    from lockwork.queues.queue import Queue
    from lockwork.queues.stock import Stock
    from lockwork.tasks.task import Task

__all__ = [
    "ConfigError",
    "Depends",
    "Grant",
    "Job",
    "JobContext",
    "JobFailed",
    "LimitReached",
    "Lock",
    "LockLost",
    "LockTimeout",
    "Lockwork",
    "LockworkError",
    "NotHeld",
    "PayloadTooLarge",
    "Queue",
    "RateLimited",
    "ReservationEnded",
    "ResultTimeout",
    "ResultUnavailable",
    "ServerRefused",
    "ServerUnavailable",
    "ServerUnsuitable",
    "SoldOut",
    "StaleFence",
    "Stock",
    "Task",
    "UnknownTask",
    "WaitTimeout",
    "current_job",
    "current_jobs",
]


_ELSEWHERE = {
    "Depends": "injection",
    "Grant": "locks",
    "Job": "jobs.job",
    "JobContext": "jobs.current",
    "Lock": "locks",
    "Lockwork": "app.lockwork",
    "Queue": "queues.queue",
    "Stock": "queues.stock",
    "Task": "tasks.task",
    "current_job": "jobs.current",
    "current_jobs": "jobs.current",
}
"""The module of each public name, except errors."""


def __getattr__(name: str) -> object:
    # Import on first use, so that commands that use no public name start fast.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"lockwork.{_ELSEWHERE.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
