"""Flows: jobs that wait for each other. Enqueue a flow in one step, read its state and its results, and cancel it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct

from lockwork.ids import node_of
from lockwork.protocol.effects import Argument, Clock, Protocol, script_call
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.messages import Hints, listen
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

    Raises QueueFull when the queue has no room for the whole flow; nothing is stored then.
    """
    children: dict[int, list[int]] = {}
    for number, job in enumerate(jobs, 1):
        if any(not 0 < parent < number for parent in job.parents):
            raise ValueError(f"job {number} waits for one that is not before it: {job.parents}")
        for parent in dict.fromkeys(job.parents) or (0,):
            children.setdefault(parent, []).append(number)
    pack = msgspec.msgpack.encode
    batches: list[list[Argument]] = [[]]
    size = 0
    for number, job in enumerate(jobs, 1):
        record, undo = marked(job.record), job.undo and marked(job.undo)
        linked = pack(children[number]) if number in children else b""
        more = len(record) + len(undo) + len(linked)
        size += more
        if (size > CALL_BYTES and batches[-1]) or len(batches[-1]) >= 7 * _BATCH:
            batches.append([])
            size = more
        waits = len(set(job.parents)) or 1
        batches[-1] += (number, record, job.delay_ms or "", waits, linked, POLICIES[job.policy], undo)
    for at, batch in enumerate(batches):
        last = at == len(batches) - 1
        args: list[Argument] = [0, window_ms, flow, len(jobs), int(at == 0), int(last)]
        args += (pack(answer), pack(children.get(0, []))) if last else ("", "")
        call = script_call("flows/push", queue, [*args, *batch])
        if room_for(queue, (yield call), jobs=len(jobs)) == codes("flows/push").too_late:
            return False
    if len(children.get(0, [])) > _READ:
        yield from expire(queue, window_ms)  # the other jobs without parents
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


def inspect(
    queue: QueueKeys, flow: str, channel: str = "", patience: float | None = None
) -> Protocol[FlowDetails | None]:
    """Read a flow; None if it is unknown. `channel` is notified of its end."""
    reply = yield script_call("flows/state", queue, [flow, channel], patience)
    if not reply:
        return None
    record, answer, blob = reply
    return flow_details(msgspec.msgpack.decode(record), msgspec.msgpack.decode(answer) if answer else None, blob)


def flow_details(record: dict[str, Any], answer: object = None, blob: bytes = b"") -> FlowDetails:
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
        details = yield from inspect(queue, flow, channel, patience(give_up, now))
        now = yield Clock()
        if details is None or details.state == "ended" or (give_up is not None and now >= give_up):
            return details
        if slow is not None and now >= began + RECHECK:
            yield from slow
            slow = None
        until = now + RECHECK if give_up is None else min(now + RECHECK, give_up)
        yield from listen(hints, flow, until, key=queue.flows)


def results(queue: QueueKeys, flow: str, numbers: Sequence[int], most: int | None = None) -> Protocol[list[bytes]]:
    """Read the stored outcomes of a flow's jobs, b"" if unknown; stops after `most` bytes."""
    outcomes: list[bytes] = []
    size = 0
    while len(outcomes) < len(numbers) and (most is None or size <= most):
        batch = numbers[len(outcomes) : len(outcomes) + _READ]
        some: list[bytes] = yield script_call("flows/results", queue, [flow, *batch])
        outcomes += some
        size += sum(map(len, some))
    return outcomes


def cancel(queue: QueueKeys, flow: str, window_ms: int = WINDOW_MS) -> Protocol[tuple[str, list[str]]]:
    """Cancel a flow; return cancelled, ended or unknown, and the running jobs' ids, whose workers must be notified."""
    running: list[str] = []
    again = 0
    while True:
        state, *more = yield script_call("flows/cancel", queue, [again, window_ms, flow])
        running += [id.decode() for id in more]
        if state != b"more":
            return state.decode(), running
        again = 1  # workers may have done the rest by then
