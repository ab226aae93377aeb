"""Permits: a number of units that many holders share, handed out in one fair line; semaphores and read-write locks."""

from __future__ import annotations

from dataclasses import dataclass

from lockwork.protocol.effects import Protocol, script_call
from lockwork.protocol.locks.grants import LockScripts
from lockwork.protocol.locks.overview import Holder, read
from lockwork.protocol.retry import insist

SCRIPTS = LockScripts("permits/acquire", "permits/abandon", "permits/release", "permits/renew")
ALL = 1 << 30
"""The units of a read-write lock: a writer takes all of them, a reader one."""
_MOST = 1000
"""Holders that one look names at most."""


@dataclass(frozen=True, slots=True)
class PermitHolder:
    """One live grant; times are in seconds."""

    holder: Holder
    fence: int
    units: int
    expires_in: float
    held_for: float


@dataclass(frozen=True, slots=True)
class PermitWaiter:
    """One live waiter in line."""

    holder: Holder
    units: int
    waited: float


@dataclass(frozen=True, slots=True)
class PermitsState:
    """How many units there are and how many are in use; some of the holders, and the first of the line, by name."""

    capacity: int
    used: int
    held: int
    """Grants that live now; of more than 1,000, some may have ended lately."""
    waiting: int
    """Live waiters; of more than 1,000, some may have died lately."""
    holders: tuple[PermitHolder, ...]
    line: tuple[PermitWaiter, ...]


def state(key: str, *, holders: int = 0, waiters: int = 0) -> Protocol[PermitsState]:
    """Read what is in use; with a limited number of holders and waiters, and never more than 1,000 of each."""
    return (yield from _read(key, holders, waiters))[0]


def _read(key: str, holders: int, waiters: int) -> Protocol[tuple[PermitsState, int]]:
    """Read what is in use, and the fence of the newest grant."""
    reply = yield script_call("permits/state", key, [holders, waiters])
    capacity, used, held, waiting, named, line, newest = reply
    found = PermitsState(
        capacity,
        used,
        held,
        waiting,
        tuple(
            PermitHolder(read(owner.decode(), request.decode()), fence, units, left / 1000, since / 1000)
            for owner, request, fence, units, left, since in named
        ),
        tuple(
            PermitWaiter(read(owner.decode(), request.decode()), units, ms / 1000) for owner, request, units, ms in line
        ),
    )
    return found, newest


def downgrade(key: str, owner: str, fence: int, units: int) -> Protocol[bool]:
    """Let a grant keep `units` of what it has; False when it was over. The line goes on in the same step."""
    return bool((yield from insist(script_call("permits/downgrade", key, [owner, fence, units]))))


def force(key: str, channels: str) -> Protocol[int]:
    """End every live grant, and notify its holder; returns how many. The waiters get what comes free.

    `channels` is what the channels of all processes begin with. Each grant is named by its fence, so that nobody loses
    what was granted meanwhile.
    """
    ended = 0
    seen, newest = yield from _read(key, _MOST, 0)
    while earlier := [held.fence for held in seen.holders if held.fence <= newest]:
        for fence in earlier:
            ended += yield script_call("permits/force", key, [0, fence, channels])
        seen, _ = yield from _read(key, _MOST, 0)
    return ended
