"""Distributed locks and work queues for Python, on Redis or Valkey."""

from __future__ import annotations

# the app
from lockwork.app import Lockwork

# what went wrong
from lockwork.errors import (
    BlockingCallError,
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

# what the app hands out
from lockwork.jobs import Job
from lockwork.locks import Grant, Lock
from lockwork.queues import Queue
from lockwork.stocks import Stock
from lockwork.tasks import Task

# inside a worker
from lockwork.worker.context import JobContext, current_job

__all__ = [
    "BlockingCallError",
    "ConfigError",
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
]
