"""The lock's own operations: looking at it, handing it to another owner, and taking it away."""

from __future__ import annotations

from dataclasses import dataclass

from lockwork.errors import LockworkError
from lockwork.protocol.effects import Argument, Call, Clock, Protocol
from lockwork.protocol.locks.grants import Granted, Request, abandon, local_deadline
from lockwork.protocol.scripts import script

_COUNTED = 1000


@dataclass(frozen=True, slots=True)
class LockState:
    """Who holds a lock now: `owner` is None when nobody does; `expires_in` is in seconds.

    A lock that nobody holds may still be kept for a while after its release (`at_least`): then `expires_in` is not 0.
    `waiters` is exact for up to 1,000; of a longer line, those who died lately may be among them.
    """

    owner: str | None
    request: str
    fence: int
    expires_in: float
    waiters: int


def state(key: str, *, count: bool = True) -> Protocol[LockState]:
    """Read who holds the lock and, if `count`, how many live waiters there are.

    Of a line that has more than 1,000 places, those further back all count as live.
    """
    args = [_COUNTED if count else 0]
    owner, request, fence, left, waiters = yield Call(script("lock_state"), [key], args)
    return LockState(owner.decode() or None, request.decode(), fence, left / 1000, waiters)


def force(key: str, fence: int, channels: str) -> Protocol[bool]:
    """End the grant with this fence, whoever holds it; False when it has ended by itself.

    `channels` is what the channels of all processes begin with: the holder's process is told.
    """
    return bool((yield Call(script("lock_force"), [key], [0, fence, channels], marked=True)))


def adopt(asked: Request, owner: str, fence: int) -> Protocol[Granted | None]:
    """Make the grant of `owner` with `fence` a new grant of who asks; None when it has ended.

    Interrupted, it gives back what it may have taken over.
    """
    sent = yield Clock()
    args: list[Argument] = [asked.owner, asked.request, asked.lease_ms, owner, fence]
    try:
        raised, deadline, now = yield Call(script("lock_adopt"), [asked.key], args)
        return Granted(raised, local_deadline(sent, now, deadline)) if raised else None
    except (GeneratorExit, LockworkError):
        raise
    except BaseException:
        yield from abandon(asked)
        raise
