"""Flows: jobs that wait for each other. Enqueue a flow in one step, read its state and its results, and cancel it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct

from lockwork.errors import QueueFull
from lockwork.ids import node_of
from lockwork.protocol.effects import Argument, Clock, Protocol, script_call
from lockwork.protocol.flows.relay import relay
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.messages import Hints, listen
from lockwork.protocol.queue import job_control
from lockwork.protocol.queue.enqueue import CALL_BYTES
from lockwork.protocol.queue.leases import RECHECK, WINDOW_MS, expire
from lockwork.protocol.queue.limits import room_for
from lockwork.protocol.retry import patience
from lockwork.protocol.scripts import codes

MOST_JOBS = 20_000
"""Limit of jobs per flow."""
MOST_LINKS = 100_000
"""Limit of parent links per flow."""
_BATCH = 500
_READ = 1000
_MARK = re.compile(rb"\d,[\d/]+,[^,;]*,[^,;]*,[^;]*>;")

Policy = Literal["fail", "ignore", "compensate"]
POLICIES: dict[Policy, str] = {"fail": "", "ignore": "i", "compensate": "u"}


class FlowJob(NamedTuple):
    """One job of a flow: it waits for its parents, which are job numbers; the first job is number 1."""

    record: bytes
    parents: Sequence[int] = ()
    delay_ms: int = 0
    policy: Policy = "fail"
    undo: bytes = b""
    """The record of its compensation; empty without one."""
    queue: str = ""
    """Its queue or partition, if that is not the flow's home."""
    undo_queue: str = ""
    """The queue or partition of its compensation, if that is not the flow's home."""
    causes: Sequence[int] = ()
    """It also waits for these jobs, and runs only if at least one of them fails."""


def marked(record: bytes) -> bytes:
    """Return the record with the mark of a flow's job."""
    head, body = record.split(b";", 1)
    return b"%b%b>;%b" % (head, b"," * max(1, 5 - head.count(b",")), body)


def is_marked(record: bytes) -> bool:
    """Return True if the record belongs to a job of a flow."""
    return _MARK.match(record) is not None


def flow_of(id: str) -> str:
    """Return the flow of a job or a compensation, from its id; raises ValueError for other ids."""
    node = node_of(id)
    if node is None:
        raise ValueError(f"{id!r} is no job of a flow")
    return node.flow


def push(
    queue: QueueKeys, flow: str, jobs: Sequence[FlowJob], answer: object, window_ms: int = WINDOW_MS
) -> Protocol[bool]:
    """Enqueue a flow. Its jobs run only after all jobs are stored. Return False when that took longer than 10 minutes.

    answer: the numbers of the jobs whose results are the flow's result, in any structure; the server only stores it.

    Jobs of other queues are stored there, as a part of the flow, before the call that starts the flow. Raises QueueFull
    when a queue has no room for all its jobs; no job runs then.
    """
    children = _children(jobs)
    pack = msgspec.msgpack.encode
    links = {parent: pack(numbers) for parent, numbers in children.items()}
    batches = list(_batches(_home_arguments(jobs, links), 7))
    here = sum(not job.queue for job in jobs)
    parts = _parts(jobs)
    if parts:
        batches.append([])  # the last call starts the flow, so it comes after the parts
    for at, batch in enumerate(batches):
        last = at == len(batches) - 1
        if last and not (yield from _push_parts(queue, flow, jobs, parts)):
            return False
        total = f"{len(jobs)}/{here}" if parts else len(jobs)
        args: list[Argument] = [0, window_ms, flow, total, int(at == 0), int(last)]
        args += (pack(answer), pack(children.get(0, []))) if last else ("", "")
        call = script_call("flows/push", queue, [*args, *batch])
        if room_for(queue, (yield call), jobs=here) == codes("flows/push").too_late:
            return False
    if len(children.get(0, [])) > _READ:
        yield from expire(queue, window_ms)  # the other jobs without parents
    if parts:
        yield from relay(queue, window_ms, request=flow)
    return True


def _children(jobs: Sequence[FlowJob]) -> dict[int, list[int]]:
    """Return the children of each job, as negative numbers if they run only after its failure.

    The children of job 0 wait for no job.
    """
    children: dict[int, list[int]] = {}
    for number, job in enumerate(jobs, 1):
        if any(not 0 < parent < number for parent in (*job.parents, *job.causes)):
            raise ValueError(f"job {number} waits for one that is not before it: {job.parents}, {job.causes}")
        for parent in dict.fromkeys(job.parents) or (() if job.causes else (0,)):
            children.setdefault(parent, []).append(number)
        for parent in dict.fromkeys(job.causes):
            children.setdefault(parent, []).append(-number)
    return children


def _home_arguments(jobs: Sequence[FlowJob], links: dict[int, bytes]) -> Iterator[list[Argument]]:
    for number, job in enumerate(jobs, 1):
        record: Argument = f">{job.queue}" if job.queue else marked(job.record)
        undo: Argument = f">{job.undo_queue}" if job.undo_queue else job.undo and marked(job.undo)
        delay = "" if job.queue else job.delay_ms or ""
        waits: Argument = len(set(job.parents)) or 1
        if job.causes:
            causes = len(set(job.causes))
            waits = f"{len(set(job.parents)) + causes}/{causes}"
        yield [number, record, delay, waits, links.get(number, b""), POLICIES[job.policy], undo]


def _batches(jobs: Iterable[list[Argument]], stride: int) -> Iterator[list[Argument]]:
    """Join the arguments of jobs for calls of limited size; there is at least one call."""
    batch: list[Argument] = []
    size = 0
    for arguments in jobs:
        more = sum(len(argument) for argument in arguments if isinstance(argument, bytes))
        size += more
        if (size > CALL_BYTES and batch) or len(batch) >= stride * _BATCH:
            yield batch
            batch, size = [], more
        batch += arguments
    yield batch


def _parts(jobs: Sequence[FlowJob]) -> dict[str, list[list[Argument]]]:
    """Return the jobs and the compensations of each other queue, as arguments of `flows/push_part`."""
    parts: dict[str, list[list[Argument]]] = {}
    for number, job in enumerate(jobs, 1):
        for name in dict.fromkeys((job.queue, job.undo_queue)):
            if name:
                record = marked(job.record) if name == job.queue else b""
                undo = marked(job.undo) if name == job.undo_queue else b""
                parts.setdefault(name, []).append([number, record, job.delay_ms or "" if record else "", undo])
    return parts


def _push_parts(
    home: QueueKeys, flow: str, jobs: Sequence[FlowJob], parts: dict[str, list[list[Argument]]]
) -> Protocol[bool]:
    """Store the parts of a flow, which is not complete yet, in the other queues; return False if it came too late.

    Raises QueueFull; the flow is discarded then.
    """
    stored = [home]
    for name, part in parts.items():
        queue = QueueKeys(home.prefix, name)
        stored.append(queue)
        here = sum(bool(record) for _, record, _, _ in part)
        for at, batch in enumerate(_batches(part, 4)):
            args: list[Argument] = [0, flow, len(jobs), here, home.name, int(at == 0), *batch]
            reply = yield script_call("flows/push_part", queue, args)
            try:
                kept = room_for(queue, reply, jobs=here) == codes("flows/push_part").stored
            except QueueFull:
                for each in stored:
                    yield script_call("flows/discard", each, [flow])
                raise
            if not kept:
                return False
    return True


class FlowDetails(Struct, frozen=True):
    """State of a flow: running, compensating or ended. The counts are of jobs, or of compensations."""

    state: Literal["running", "compensating", "ended"]
    jobs: int
    succeeded: int
    failed: int
    cancelled: int
    failure: int
    """Number of the first job that failed or was cancelled, and whose policy is not to ignore it; 0: none."""
    stopped: bool
    compensated: int
    uncompensated: int
    """Number of failed compensations."""
    answer: Any
    blob: bytes
    """The stored outcome of the first failure; empty without one."""
    spans: bool = False
    """True if it has jobs, or compensations, in other queues."""
    failed_in: str = ""
    """The queue of the first failure."""
    skipped: int = 0
    """Number of jobs that run only after a failure that did not occur."""


def inspect(
    queue: QueueKeys, flow: str, channel: str = "", patience: float | None = None
) -> Protocol[FlowDetails | None]:
    """Read a flow; None if it is unknown. `channel` is notified of its end."""
    return (yield from locate(queue, flow, channel, patience))[1]


def locate(
    queue: QueueKeys, flow: str, channel: str = "", patience: float | None = None
) -> Protocol[tuple[QueueKeys, FlowDetails | None]]:
    """Return the home of a flow, of which `queue` may have a part, and its state."""
    while True:
        reply = yield script_call("flows/state", queue, [flow, channel], patience)
        if not reply:
            return queue, None
        packed, answer, blob, *elsewhere = reply
        record = msgspec.msgpack.decode(packed)
        if "home" not in record:
            failed_in = elsewhere[0].decode() if elsewhere else queue.name
            return queue, flow_details(record, msgspec.msgpack.decode(answer) if answer else None, blob, failed_in)
        queue = QueueKeys(queue.prefix, record["home"])


def flow_details(record: dict[str, Any], answer: object = None, blob: bytes = b"", failed_in: str = "") -> FlowDetails:
    """Parse the stored record of a flow."""
    return FlowDetails(
        "running" if record["state"] == "storing" else record["state"],
        record["jobs"],
        record["succeeded"],
        record["failed"],
        record["cancelled"],
        record["first_failure"],
        record["stopped"],
        record["compensated"],
        record["uncompensated"],
        answer,
        blob,
        "parts" in record,
        failed_in,
        record.get("skipped", 0),
    )


def ended(
    queue: QueueKeys, flow: str, channel: str, timeout: float | None, slow: Protocol[None] | None = None
) -> Protocol[FlowDetails | None]:
    """Wait at most `timeout` seconds until a flow ends; return its last known state.

    slow: runs once if the flow has not ended after RECHECK seconds.
    """
    began = now = yield Clock()
    give_up = None if timeout is None else now + timeout
    hints = Hints()
    while True:
        queue, details = yield from locate(queue, flow, channel, patience(give_up, now))
        now = yield Clock()
        if details is None or details.state == "ended" or (give_up is not None and now >= give_up):
            return details
        if slow is not None and now >= began + RECHECK:
            yield from slow
            slow = None
        until = now + RECHECK if give_up is None else min(now + RECHECK, give_up)
        yield from listen(hints, flow, until, key=queue.flows)


class StoredOutcome(NamedTuple):
    """The stored outcome of a flow's job, b"" if unknown, and the job's queue."""

    blob: bytes
    queue: str


def results(
    queue: QueueKeys, flow: str, numbers: Sequence[int], most: int | None = None
) -> Protocol[list[StoredOutcome]]:
    """Read the stored outcomes of a flow's jobs; stops after `most` bytes."""
    outcomes: list[StoredOutcome] = []
    size = 0
    while len(outcomes) < len(numbers) and (most is None or size <= most):
        batch = numbers[len(outcomes) : len(outcomes) + _READ]
        reply: list[Any] = yield script_call("flows/results", queue, [flow, *batch])
        if reply[0] == []:  # the queue has only a part of the flow
            queue = QueueKeys(queue.prefix, reply[1].decode())
            continue
        for each in reply:
            blob, name = (each[0], each[1].decode()) if isinstance(each, list) else (each, queue.name)
            outcomes.append(StoredOutcome(blob, name))
            size += len(blob)
    return outcomes


def cancel(
    queue: QueueKeys, flow: str, window_ms: int = WINDOW_MS, request: str | None = None
) -> Protocol[tuple[str, list[str]]]:
    """Cancel a flow; return cancelled, ended or unknown, and the running jobs' ids, whose workers are notified.

    request: as in `relay`.
    """
    running: list[str] = []
    again = 0
    while True:
        state, *more = yield script_call("flows/cancel", queue, [again, window_ms, flow])
        if state == b"home":  # the queue has only a part of the flow
            queue = QueueKeys(queue.prefix, more[0].decode())
            continue
        if more[-1:] == [b">"]:
            more.pop()
            yield from relay(queue, window_ms, request=request)
        running += [id.decode() for id in more]
        for id in more:
            yield from job_control.cancel(queue, id.decode(), queue.prefix, window_ms)
        if state != b"more":
            return state.decode(), running
        again = 1  # workers may have done the rest by then
