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
    told = yield script_call("queue/forward_wakeup", queue, args, 0.5, run=queue.run(session))
    return bool(told)


@dataclass(frozen=True, slots=True)
class QueueHead:
    """The ids at the head of each ready list, and seconds left of the lease that ends first, None without workers.

    An id is "" when a list has jobs, and none was found among its first entries.
    """

    at_ms: int
    lease_left: float | None
    first: list[list[str]]
    due_for: float | None = None
    """Age in seconds of the oldest due job that no worker has admitted yet; None without such a job."""
    grouped: int = 0
    """Jobs that wait for their key or their group's turn."""


def queue_head(queue: QueueKeys) -> Protocol[QueueHead]:
    """Read the heads of the ready lists; what it costs does not depend on what waits."""
    at_ms, left, due_ms, grouped, *lists = yield script_call("queue/heads", queue, [FIRST])
    first = [[id.decode() for id in ids] for ids in lists]
    return QueueHead(
        at_ms, float(left) / 1000 if left else None, first, due_ms / 1000 if due_ms >= 0 else None, grouped
    )


def within(patience: float, protocol: Generator[Effect, Any, T]) -> Generator[Effect, Any, T]:
    """Give up a protocol that needs no clean-up after `patience` seconds without the server."""
    value: Any = None
    error: BaseException | None = None
    while True:
        try:
            effect = protocol.send(value) if error is None else protocol.throw(error)
        except StopIteration as done:
            result: T = done.value
            return result
        if type(effect) is Call:
            effect = replace(effect, patience=patience)
        elif type(effect) is Calls:
            effect = Calls([replace(call, patience=patience) for call in effect.calls])
        value, error = None, None
        try:
            value = yield effect
        except BaseException as raised:  # noqa: BLE001 - the protocol decides what follows
            error = raised
