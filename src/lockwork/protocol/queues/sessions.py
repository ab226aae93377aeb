"""Wake-ups that a worker cannot use, and what shows how long jobs wait."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from lockwork.protocol.effects import Argument, Call, Calls, Effect, Protocol, script_call
from lockwork.protocol.keys import QueueKeys

T = TypeVar("T")

FIRST = 5
"""Jobs at the head of a ready list that tell how long it makes jobs wait."""


def forward_wakeup(
    queue: QueueKeys, session: str, channel: str, last: int, window_ms: int, *, awake: bool = False
) -> Protocol[bool]:
    """Take a sleeping worker off the list of those to be woken; if it was woken already, wake another instead.

    `awake`: also True when it woke up without a message, because what it waited for must be due. A job that was
    offered to it, with a higher fence than `last`, goes back; one that was cancelled meanwhile ends.
    """
    args: list[Argument] = [channel, int(awake), last, window_ms]
    told = yield script_call("jobs_pass", queue, args, 0.5, run=queue.run(session))
    return bool(told)


@dataclass(frozen=True, slots=True)
class QueueHead:
    """The ids at the head of each ready list, and seconds left of the lease that ends first, None without workers."""

    at_ms: int
    lease_left: float | None
    first: list[list[str]]


def queue_head(queue: QueueKeys) -> Protocol[QueueHead]:
    """Read the heads of the ready lists; what it costs does not depend on what waits."""
    at_ms, left, *lists = yield script_call("jobs_heads", queue, [FIRST])
    return QueueHead(at_ms, float(left) / 1000 if left else None, [[id.decode() for id in ids] for ids in lists])


def within(patience: float, protocol: Generator[Effect, Any, T]) -> Generator[Effect, Any, T]:
    """Let a protocol that has nothing to clean up give up after `patience` seconds without the server."""
    value: Any = None
    while True:
        try:
            effect = protocol.send(value)
        except StopIteration as done:
            result: T = done.value
            return result
        if type(effect) is Call:
            effect = replace(effect, patience=patience)
        elif type(effect) is Calls:
            effect = Calls([replace(call, patience=patience) for call in effect.calls])
        value = yield effect
