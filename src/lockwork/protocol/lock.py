"""The lock: how a grant is asked for, waited for, kept and given back."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lockwork.errors import LockTimeout, LockworkError
from lockwork.protocol.effects import Call, Clock, Park, Protocol
from lockwork.protocol.scripts import script

CLAIM_MS = 4000
"""What a waiter gets when the lock is handed to it unasked; its process renews it within that time if it is alive."""


@dataclass(frozen=True, slots=True)
class Request:
    """One call of acquire: everything that the server needs to know about it."""

    key: str
    name: str
    owner: str
    request: str
    channel: str
    lease_ms: int
    renewed: bool


@dataclass(frozen=True, slots=True)
class Granted:
    """A grant as its holder knows it: `deadline` is on the holder's own clock, never later than the server's."""

    fence: int
    deadline: float


def acquire(asked: Request, wait: float | None) -> Protocol[Granted]:
    """Get the lock, waiting in line for at most `wait` seconds (None: as long as it takes).

    Raises LockTimeout. Interrupted anywhere, it leaves the line, and gives back a grant that was on its way.
    """
    began = yield Clock()
    give_up = None if wait is None else began + wait
    try:
        while True:
            sent = yield Clock()
            reply = yield _ask(asked, 0 if wait == 0 else 1, None if give_up is None else give_up - sent)
            if reply[0] == 1:
                return Granted(reply[1], _deadline(sent, reply[3], reply[2]))
            if wait == 0:
                raise LockTimeout(f"lock {asked.name!r} is held by somebody else")
            until = sent + reply[1] / 1000
            message = yield Park(asked.request, until if give_up is None else min(until, give_up))
            granted = _handed(message, sent, reply[2])
            now = yield Clock()
            if granted is not None and asked.renewed and granted.deadline > now:
                return granted
            if message is None and give_up is not None and now >= give_up:
                raise LockTimeout(f"lock {asked.name!r} was not granted within {wait:g} s")
    except GeneratorExit:
        raise
    except BaseException as error:
        if not (wait == 0 and isinstance(error, LockTimeout)):
            yield from _abandon(asked)
        raise


def release(key: str, owner: str, fence: int) -> Protocol[bool]:
    """End a grant and hand the lock on; False when the server saw that the lease was over before.

    Interrupted, it is sent once more: the first may not have left, or may have met a server without the script.
    """
    call = Call(script("lock_release"), [key], [0, owner, fence], marked=True)
    try:
        reply = yield call
    except (GeneratorExit, LockworkError):
        raise
    except BaseException:
        with contextlib.suppress(LockworkError):
            yield replace(call.again(), patience=1)
        raise
    return bool(reply)


@dataclass(frozen=True, slots=True)
class Renewal:
    """One grant to be kept: its key, owner, fence and lease."""

    key: str
    owner: str
    fence: int
    lease_ms: int


def renew(grants: Sequence[Renewal], patience: float) -> Protocol[list[float | None]]:
    """Keep many grants with one call; per grant its new deadline on the client's clock, or None when it is over."""
    sent = yield Clock()
    args: list[str | int] = []
    for grant in grants:
        args += (grant.owner, grant.fence, grant.lease_ms)
    reply = yield Call(script("lock_renew"), [grant.key for grant in grants], args, patience=patience)
    now = reply[-1]
    return [_deadline(sent, now, ends) if ends else None for ends in reply[:-1]]


@dataclass(frozen=True, slots=True)
class LockState:
    """Who holds a lock now: `owner` is None when it is free; `expires_in` is in seconds."""

    owner: str | None
    fence: int
    expires_in: float
    waiters: int


def state(key: str) -> Protocol[LockState]:
    """Read who holds the lock and how many live waiters stand in line."""
    owner, fence, left, waiters = yield Call(script("lock_state"), [key], [])
    return LockState(owner.decode() or None, fence, left / 1000, waiters)


def _abandon(asked: Request) -> Protocol[None]:
    # when the server is away, the place in line, or the grant that nobody renews, ends by its deadline
    with contextlib.suppress(LockworkError):
        yield Call(script("lock_abandon"), [asked.key], [asked.owner, asked.request], patience=1)


def _ask(asked: Request, wait: int, patience: float | None) -> Call:
    args = (asked.owner, asked.request, asked.lease_ms, CLAIM_MS, wait, asked.channel)
    return Call(script("lock_acquire"), (asked.key,), args, patience)


def _deadline(sent: float, server_now: int, server_deadline: int) -> float:
    # The server read its clock after `sent`, so this is never later than the server's own deadline.
    return sent + (server_deadline - server_now) / 1_000_000


def _handed(message: str | None, sent: float, server_now: int) -> Granted | None:
    """Read a hand-over; it carries the server's deadline, and our last call tells how far its clock is from ours."""
    parts = message.split() if message else []
    if len(parts) != 2:
        return None
    return Granted(int(parts[0]), _deadline(sent, server_now, int(parts[1])))
