"""Recorded jobs: what the calls that leave for the server enqueue."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from lockwork.ids import node_id
from lockwork.jobs import options as job_options
from lockwork.protocol.effects import Call
from lockwork.protocol.flows import flows
from lockwork.protocol.names import shown
from lockwork.protocol.queue import record_header, records
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.scripts import codes
from lockwork.protocol.slots import queue_of as queue_of_tag
from lockwork.protocol.slots import tag_of
from lockwork.runtime.runtime import Runtime

ENQUEUING = frozenset(
    {
        "queue/push_one",
        "queue/push",
        "queue/push_until",
        "queue/push_numbered",
        "queue/push_own",
        "queue/push_unique",
        "flows/push",
        "flows/push_part",
    }
)
"""The scripts that only enqueue."""
JOINED = frozenset({"locks/release_and_push", "stock/reserve", "stock/wait"})
"""The scripts that enqueue in one step with something else, which only a server can decide."""


@dataclass(frozen=True, slots=True)
class RecordedJob:
    """A job that left for the server; `args` and `kwargs` are as they were sent, plain JSON."""

    id: str
    task: str
    queue: str
    """The queue, or its partition, as "mail/0"."""
    args: list[Any]
    kwargs: dict[str, Any]
    delay: float
    """Seconds from the enqueue until it may run."""
    at: datetime
    """The moment from which it may run, in UTC."""
    key: str | None
    group: str | None
    unique: str | None
    priority: str | int
    tags: tuple[str, ...]
    headers: dict[str, str]
    flow: str | None
    """The id of its flow."""
    absolute: bool = field(repr=False)
    """True if the call had a moment, not a delay."""
    prefix: str = field(repr=False)
    record: bytes = field(repr=False)
    runtime: Runtime = field(repr=False, compare=False)


def jobs_of(call: Call, reply: Any) -> list[NewJob]:
    """Return the jobs that a call of a script above enqueued, by its reply."""
    name, args = call.script.name, list(call.args)
    rest = args[call.script.declared.fixed :]
    if name == "queue/push_one":
        jobs = [_job(args[0], args[1], 0)]
    elif name == "flows/push":
        jobs = [*_of_flow(str(args[2]), rest, 7)]
    elif name == "flows/push_part":
        jobs = [*_of_flow(str(args[1]), rest, 4)]
    else:
        jobs = [_job(*rest[at : at + 3]) for at in range(0, len(rest), 3)]
    return _enqueued(call, jobs, reply[0] if call.replicas else reply)


def _enqueued(call: Call, jobs: list[NewJob], reply: Any) -> list[NewJob]:
    name = call.script.name
    if name in ("stock/reserve", "stock/wait"):
        done = reply[0] == codes(name).reserved and reply[1].decode() == call.args[2]
        return jobs if done else []
    if name == "queue/push_own" and not isinstance(reply[0], int):
        return [job for job, sign in zip(jobs, reply, strict=True) if sign == b"n"]
    if name == "queue/push_unique" and not isinstance(reply[0], int):
        return [job for job, sign in zip(jobs, reply[1::2], strict=True) if sign != b"k"]
    if isinstance(reply, list):  # the queue is full
        return jobs[: reply[2]] if len(reply) > 2 else []
    return jobs if reply or name.startswith("queue/") else []


def _job(id: Any, record: Any, delay_ms: Any) -> NewJob:
    return NewJob(str(id), record, int(delay_ms or 0))


def _of_flow(flow: str, rest: list[Any], stride: int) -> Iterator[NewJob]:
    """Yield the jobs of a flow, or of a part of it; a part has those of its own queue."""
    for at in range(0, len(rest), stride):
        number, record, delay_ms = rest[at : at + 3]
        if isinstance(record, bytes) and record:
            yield _job(node_id(flow, number), record, delay_ms)


def recorded(job: NewJob, queue: str, runtime: Runtime) -> RecordedJob:
    """Describe a job that is enqueued now."""
    record = job.record if runtime.payloads is None else runtime.payloads.open_call(queue, job.id, job.record)
    call = records.read(record, len(record), job.id)
    names = record_header.names(job.record)
    began = time.time()
    due = -job.delay_ms / 1000 if job.delay_ms < 0 else began + job.delay_ms / 1000
    return RecordedJob(
        id=job.id,
        task=call.task or "",
        queue=queue,
        args=call.args or [],
        kwargs=call.kwargs or {},
        delay=max(0.0, due - began) if job.delay_ms < 0 else job.delay_ms / 1000,
        at=datetime.fromtimestamp(due, UTC),
        key=shown(names.key) if names.key else None,
        group=shown(names.group) if names.group else None,
        unique=shown(names.unique) if names.unique else None,
        priority=call.priority,
        tags=job_options.tags(job.record),
        headers=job_options.headers(job.record),
        flow=flows.flow_of(job.id) if flows.is_marked(job.record) else None,
        absolute=job.delay_ms < 0,
        prefix=runtime.prefix,
        record=job.record,
        runtime=runtime,
    )


def queue_of(call: Call) -> str:
    """Return the queue of a call that enqueues."""
    return queue_of_tag(tag_of(call.keys[0]).removeprefix("q:"))
