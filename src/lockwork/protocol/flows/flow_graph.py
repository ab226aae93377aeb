"""Read flows for operators: find the flows of a queue, and read a flow as a graph of jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec

from lockwork.ids import node_id
from lockwork.protocol.effects import Argument, Protocol, script_call
from lockwork.protocol.flows.flows import FlowDetails, flow_details, locate
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import job_control, records

_SCAN = 1000
"""Limit per call of fields of the flows' hash to read."""
_ID = "?" * 16
"""Matches the ids of flows: all other fields are longer, or are `#`."""
_NODES = 200
"""Limit per call of jobs to read."""
_RECORD = 2048
"""Bytes of each record to read for the name of its task."""
_PLACED = 100
"""Limit of unended jobs to locate one by one, to find out if they run."""

NodeState = Literal["blocked", "scheduled", "ready", "running", "active", "succeeded", "failed", "cancelled", "skipped"]
_ENDS: dict[bytes, NodeState] = {
    b"s": "succeeded",
    b"f": "failed",
    b"c": "cancelled",
    b"x": "cancelled",
    b"n": "skipped",
}


@dataclass(frozen=True, slots=True)
class FlowNode:
    """One job of a flow, with the numbers of the jobs that wait for it.

    `state` is "active" if the job is scheduled, ready or running, and too many jobs are active to locate them all.
    `task` is None if its record is long, or is deleted and not in history.
    """

    number: int
    id: str
    state: NodeState
    task: str | None
    children: tuple[int, ...]
    queue: str | None = None
    """Its queue or partition, if that is not the flow's."""
    after_failure: tuple[int, ...] = ()
    """The children that run only if it fails."""


def find(queue: QueueKeys, most: int) -> Protocol[tuple[dict[str, FlowDetails], int, bool]]:
    """Read the flows of a queue, from at most `most` fields of their hash.

    Return the flows by id, the number of fields that were read, and True if these were all fields.
    """
    flows: dict[str, FlowDetails] = {}
    cursor, searched = "0", 0
    while True:
        step = yield script_call("flows/find", queue, [cursor, _ID, _SCAN])
        for at in range(2, len(step), 3):
            id, packed, ended = step[at : at + 3]
            record = _record(packed)
            if record is not None:
                flows[id.decode(errors="replace")] = flow_details(record, blob=ended)
        cursor, searched = step[0].decode(), min(step[1], searched + _SCAN)
        if cursor == "0":
            return flows, step[1], True
        if searched >= most:
            return flows, searched, False


def graph(queue: QueueKeys, flow: str, first: int, most: int) -> Protocol[tuple[QueueKeys, list[FlowNode]]]:
    """Read up to `most` jobs of a flow, from number `first`; return no jobs if the flow is unknown.

    Also return the flow's own queue, of which `queue` may have a part.
    """
    queue, details = yield from locate(queue, flow)
    if details is None:
        return queue, []
    numbers = range(first, min(details.jobs, first + most - 1) + 1)
    nodes: list[FlowNode] = []
    for at in range(0, len(numbers), _NODES):
        nodes += yield from _read(queue, flow, numbers[at : at + _NODES])
    active = [place for place, node in enumerate(nodes) if node.state == "active"]
    for place in active[:_PLACED]:
        node = nodes[place]
        keys = queue if node.queue is None else QueueKeys(queue.prefix, node.queue)
        location = yield from job_control.find_place(keys, node.id)
        if location.state != "gone":
            state: Any = location.state
            nodes[place] = replace(node, state=state)
    return queue, nodes


def queues(queue: QueueKeys, flow: str, numbers: Sequence[int]) -> Protocol[dict[int, str]]:
    """Return the queues of those jobs that are not in the flow's own."""
    found: dict[int, str] = {}
    for at in range(0, len(numbers), _NODES):
        found |= (yield from _fields(queue, flow, numbers[at : at + _NODES], 0))[1]
    return found


def _read(queue: QueueKeys, flow: str, numbers: Sequence[int]) -> Protocol[list[FlowNode]]:
    fields, elsewhere = yield from _fields(queue, flow, numbers, _RECORD)
    stored = {number: fields[4 * at + 3] for at, number in enumerate(numbers)}
    for name in dict.fromkeys(elsewhere.values()):
        there = [number for number in numbers if elsewhere.get(number) == name]
        part, _ = yield from _fields(QueueKeys(queue.prefix, name), flow, there, _RECORD)
        stored |= {number: part[4 * at + 3] for at, number in enumerate(there)}
    nodes: list[FlowNode] = []
    for at, number in enumerate(numbers):
        (children, letter, waits), record = fields[4 * at : 4 * at + 3], stored[number]
        state: NodeState = _ENDS.get(letter, "blocked" if waits else "active")
        task = records.read(record, len(record) + 1, "").task if record else None  # its beginning has the task
        links = _links(children)
        after_failure = tuple(-child for child in links if child < 0)
        id, queue_name = node_id(flow, number), elsewhere.get(number)
        nodes.append(FlowNode(number, id, state, task, tuple(map(abs, links)), queue_name, after_failure))
    return nodes


def _fields(
    queue: QueueKeys, flow: str, numbers: Sequence[int], bytes: int
) -> Protocol[tuple[list[Any], dict[int, str]]]:
    """Read four fields of each job, and the queues of the jobs that are in other queues."""
    args: list[Argument] = [flow, bytes]
    for number in numbers:
        args += (number, node_id(flow, number))
    reply: list[Any] = yield script_call("flows/graph", queue, args)
    elsewhere = reply.pop() if len(reply) % 4 else []
    return reply, {int(elsewhere[at]): elsewhere[at + 1].decode() for at in range(0, len(elsewhere), 2)}


def _record(packed: bytes) -> dict[str, Any] | None:
    try:
        record = msgspec.msgpack.decode(packed)
    except msgspec.DecodeError:
        return None
    return record if isinstance(record, dict) and record.get("state") not in ("removing", "discarding") else None


def _links(packed: bytes) -> tuple[int, ...]:
    return tuple(msgspec.msgpack.decode(packed, type=list[int])) if packed else ()
