"""Types for annotations and options, and of what public methods take and return."""

from __future__ import annotations

from lockwork.backoff import Exponential
from lockwork.flows.flow import Flow
from lockwork.flows.runs import FlowPage, FlowRun, FlowStatus, FlowSummary
from lockwork.hooks import Again, Cancelled, Died, Enqueued, Failed, Hooks, Retrying, Snoozed, Started, Succeeded
from lockwork.injection import INJECTED
from lockwork.jobs.log_fields import JobFields
from lockwork.jobs.search import JobFilter, JobPage, JobRow
from lockwork.jobs.snapshot import Attempt, JobError, JobFailure, JobSnapshot
from lockwork.locks.election import Election, ElectionStatus
from lockwork.locks.fenced_register import Register, Written
from lockwork.locks.multilock import MultiGrant, MultiLock
from lockwork.locks.quorum import Quorum
from lockwork.locks.quorum_lock import QuorumGrant, QuorumLock
from lockwork.locks.rwlock import ReadSide, RWGrant, RWLock, RWLockState, WriteSide
from lockwork.locks.semaphore import Semaphore
from lockwork.payloads.codec import PayloadCodec
from lockwork.payloads.signing import HmacCodec
from lockwork.protocol.dead.dead import DeadGroup, DeadJob, DeadPage
from lockwork.protocol.delay_queue.delay_queue import DelayQueueEntry
from lockwork.protocol.flows.flow_graph import FlowNode
from lockwork.protocol.locks.deadlocks import Deadlock, Edge
from lockwork.protocol.locks.grants import LockState
from lockwork.protocol.locks.overview import Holder, LockHolder, LockSnapshot, LockWaiter, Overview
from lockwork.protocol.permits.permits import PermitHolder, PermitsState, PermitWaiter
from lockwork.protocol.queue.browse import WaitingJob
from lockwork.protocol.queue.records import Fault, StoredCall
from lockwork.protocol.queue.status import QueueStatus, WorkerInfo
from lockwork.protocol.queue.task_limits import TaskLimits, TaskLimitState
from lockwork.protocol.search.search import BulkChange
from lockwork.protocol.stock.stock import Reservation, StockMinute, StockStatus
from lockwork.protocol.synchronizers.barrier import BarrierStatus
from lockwork.protocol.synchronizers.latch import LatchStatus
from lockwork.protocol.synchronizers.limiter import LimiterOverview, LimiterStatus, LimiterSummary
from lockwork.queues.dead import DeadSet, Matching
from lockwork.queues.delay_queue import DelayQueue
from lockwork.queues.limits import LimitSettings, QueueLimits
from lockwork.queues.queue_lock import QueueGrant, QueueLock
from lockwork.queues.stock import StockSummary
from lockwork.runtime.runtime import LockObservation
from lockwork.schedules.options import CreatedScheduleSettings, ScheduledTaskSettings
from lockwork.schedules.schedule import Schedule, ScheduleStatus
from lockwork.synchronizers.barrier import Barrier
from lockwork.synchronizers.latch import Latch
from lockwork.synchronizers.limiter import Limiter
from lockwork.synchronizers.once import Once, OnceStatus
from lockwork.tasks.call import ResultRef, TaskCall
from lockwork.tasks.middleware import Outgoing
from lockwork.tasks.options import CallSettings
from lockwork.tasks.remote import RemoteTask
from lockwork.telemetry.metrics import Histogram, MetricPoint, MetricSeries
from lockwork.workers import AnnouncedTask, App, AwaitedJob, EmbeddedWorker, RunningJob, Worker, WorkerHandle

__all__ = [
    "INJECTED",
    "Again",
    "AnnouncedTask",
    "App",
    "Attempt",
    "AwaitedJob",
    "Barrier",
    "BarrierStatus",
    "BulkChange",
    "CallSettings",
    "Cancelled",
    "CreatedScheduleSettings",
    "DeadGroup",
    "DeadJob",
    "DeadPage",
    "DeadSet",
    "Deadlock",
    "DelayQueue",
    "DelayQueueEntry",
    "Died",
    "Edge",
    "Election",
    "ElectionStatus",
    "EmbeddedWorker",
    "Enqueued",
    "Exponential",
    "Failed",
    "Fault",
    "Flow",
    "FlowNode",
    "FlowPage",
    "FlowRun",
    "FlowStatus",
    "FlowSummary",
    "Histogram",
    "HmacCodec",
    "Holder",
    "Hooks",
    "JobError",
    "JobFailure",
    "JobFields",
    "JobFilter",
    "JobPage",
    "JobRow",
    "JobSnapshot",
    "Latch",
    "LatchStatus",
    "LimitSettings",
    "Limiter",
    "LimiterOverview",
    "LimiterStatus",
    "LimiterSummary",
    "LockHolder",
    "LockObservation",
    "LockSnapshot",
    "LockState",
    "LockWaiter",
    "Matching",
    "MetricPoint",
    "MetricSeries",
    "MultiGrant",
    "MultiLock",
    "Once",
    "OnceStatus",
    "Outgoing",
    "Overview",
    "PayloadCodec",
    "PermitHolder",
    "PermitWaiter",
    "PermitsState",
    "QueueGrant",
    "QueueLimits",
    "QueueLock",
    "QueueStatus",
    "Quorum",
    "QuorumGrant",
    "QuorumLock",
    "RWGrant",
    "RWLock",
    "RWLockState",
    "ReadSide",
    "Register",
    "RemoteTask",
    "Reservation",
    "ResultRef",
    "Retrying",
    "RunningJob",
    "Schedule",
    "ScheduleStatus",
    "ScheduledTaskSettings",
    "Semaphore",
    "Snoozed",
    "Started",
    "StockMinute",
    "StockStatus",
    "StockSummary",
    "StoredCall",
    "Succeeded",
    "TaskCall",
    "TaskLimitState",
    "TaskLimits",
    "WaitingJob",
    "Worker",
    "WorkerHandle",
    "WorkerInfo",
    "WriteSide",
    "Written",
]  # fmt: skip
