"""Types for annotations and options."""

from __future__ import annotations

from lockwork.backoff import Exponential
from lockwork.flows.flow import Flow
from lockwork.flows.runs import FlowRun, FlowStatus
from lockwork.hooks import Again, Cancelled, Died, Enqueued, Failed, Retrying, Snoozed, Started, Succeeded
from lockwork.injection import INJECTED
from lockwork.jobs.log_fields import JobFields
from lockwork.jobs.snapshot import JobError, JobSnapshot
from lockwork.locks.election import Election, ElectionStatus
from lockwork.locks.fenced_register import Register, Written
from lockwork.locks.multilock import MultiGrant, MultiLock
from lockwork.locks.quorum import Quorum
from lockwork.locks.quorum_lock import QuorumGrant
from lockwork.locks.rwlock import RWGrant, RWLock, RWLockState
from lockwork.locks.semaphore import Semaphore
from lockwork.protocol.locks.grants import LockState
from lockwork.protocol.locks.overview import Holder
from lockwork.protocol.locks.permits import PermitsState
from lockwork.protocol.queues.dead import DeadGroup, DeadJob, DeadPage
from lockwork.protocol.queues.status import QueueStatus, WorkerInfo
from lockwork.protocol.queues.stock import Reservation, StockStatus
from lockwork.protocol.synchronizers.barrier import BarrierStatus
from lockwork.protocol.synchronizers.latch import LatchStatus
from lockwork.protocol.synchronizers.limiter import LimiterStatus
from lockwork.queues.dead import DeadSet
from lockwork.queues.delay_queue import DelayQueue
from lockwork.queues.limits import QueueLimits
from lockwork.queues.queue_lock import QueueGrant, QueueLock
from lockwork.schedules.schedule import Schedule, ScheduleStatus
from lockwork.synchronizers.barrier import Barrier
from lockwork.synchronizers.latch import Latch
from lockwork.synchronizers.limiter import Limiter
from lockwork.synchronizers.once import Once, OnceStatus
from lockwork.tasks.middleware import Outgoing

__all__ = [
    "INJECTED", "Again", "Barrier", "BarrierStatus", "Cancelled", "DeadGroup", "DeadJob", "DeadPage", "DeadSet",
    "DelayQueue", "Died", "Election", "ElectionStatus", "Enqueued", "Exponential", "Failed", "Flow", "FlowRun",
    "FlowStatus", "Holder", "JobError", "JobFields", "JobSnapshot", "Latch", "LatchStatus", "Limiter",
    "LimiterStatus", "LockState", "MultiGrant", "MultiLock", "Once", "OnceStatus", "Outgoing", "PermitsState",
    "QueueGrant", "QueueLimits", "QueueLock", "QueueStatus", "Quorum", "QuorumGrant", "RWGrant", "RWLock",
    "RWLockState", "Register", "Reservation", "Retrying", "Schedule", "ScheduleStatus", "Semaphore", "Snoozed",
    "Started", "StockStatus", "Succeeded", "WorkerInfo", "Written",
]  # fmt: skip
