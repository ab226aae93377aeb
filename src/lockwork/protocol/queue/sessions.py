"""Forward wake-ups that a worker cannot use, and read the first jobs of the ready lists."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from lockwork.protocol.effects import Argument, Call, Calls, Effect, Protocol, script_call
from lockwork.protocol.keys import QueueKeys

T = TypeVar("T")

FIRST = 5
"""Number of jobs to read from each ready list, to estimate how long its jobs wait."""


def forward_wakeup(
    queue: QueueKeys, session: str, channel: str, last: int, window_ms: int, *, awake: bool = False
) -> Protocol[bool]:
    """End the idle state of a worker. If the worker was already woken, wake another; return True if one was woken.

    awake: the worker woke up without a message because a scheduled job must be due; another worker is woken, too. A job
    that was offered to the worker, with a fence higher than `last`, returns to the queue, or ends if it has a
    cancellation request.
    """
    args: list[Argument] = [channel, int(awake), last, window_ms]
    reply = yield script_call("queue/forward_wakeup", queue, args, 0.5, run=queue.run(session))
    return bool(reply)


class QueueHead(Struct, frozen=True):
    """The first ids of each ready list, and the seconds until the next lease ends (None without workers).

    An id is "" when a list has jobs, but its first entries are all void.
    """

    at_ms: int
    lease_left: float | None
    first: list[list[str]]
    due_for: float | None = None
    """Age in seconds of the oldest due job that is not yet moved to a ready list; None without such a job."""
    grouped: int = 0
    """Number of jobs that wait for their key or their group's turn."""


def queue_head(queue: QueueKeys) -> Protocol[QueueHead]:
    """Read the first jobs of the ready lists; the cost does not depend on the number of jobs."""
    at_ms, lease_ms, due_ms, grouped, *lists = yield script_call("queue/heads", queue, [FIRST])
    first = [[id.decode() for id in ids] for ids in lists]
    return QueueHead(
        at_ms, float(lease_ms) / 1000 if lease_ms else None, first, due_ms / 1000 if due_ms >= 0 else None, grouped
    )


def within(patience: float, protocol: Generator[Effect, Any, T]) -> Generator[Effect, Any, T]:
    """Limit each call of a protocol that needs no cleanup to `patience` seconds without the server."""
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
