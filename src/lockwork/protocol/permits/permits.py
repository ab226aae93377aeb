"""Permits: units that many holders share, granted in order of arrival. Used for semaphores and read-write locks."""

from __future__ import annotations

from msgspec import Struct

from lockwork.protocol.effects import Protocol, script_call
from lockwork.protocol.locks.grants import LockScripts
from lockwork.protocol.locks.overview import Holder, read
from lockwork.protocol.retry import insist

SCRIPTS = LockScripts("permits/acquire", "permits/abandon", "permits/release", "permits/renew")
ALL = 1 << 30
"""Number of units of a read-write lock: a writer takes every unit, a reader takes 1."""
_MOST = 1000
"""Limit per call of holders to list."""


class PermitHolder(Struct, frozen=True):
    """One live grant; times are in seconds."""

    holder: Holder
    fence: int
    units: int
    expires_in: float
    held_for: float


class PermitWaiter(Struct, frozen=True):
    """One live waiter."""

    holder: Holder
    units: int
    waited: float


class PermitsState(Struct, frozen=True):
    """Capacity and units in use; some of the holders, and the first waiters."""

    capacity: int
    used: int
    held: int
    """Number of live grants; above 1,000, it may include grants that ended recently."""
    waiting: int
    """Number of live waiters; above 1,000, it may include waiters that died recently."""
    holders: tuple[PermitHolder, ...]
    line: tuple[PermitWaiter, ...]


def state(key: str, *, holders: int = 0, waiters: int = 0) -> Protocol[PermitsState]:
    """Read the units in use, and up to `holders` holders and `waiters` waiters, at most 1,000 each."""
    return (yield from _read(key, holders, waiters))[0]


def _read(key: str, holders: int, waiters: int) -> Protocol[tuple[PermitsState, int]]:
    """Read the state, and the fence of the newest grant."""
    reply = yield script_call("permits/state", key, [holders, waiters])
    capacity, used, held, waiting, named, line, newest = reply
    snapshot = PermitsState(
        capacity,
        used,
        held,
        waiting,
        tuple(
            PermitHolder(read(owner.decode(), request.decode()), fence, units, remaining_ms / 1000, since / 1000)
            for owner, request, fence, units, remaining_ms, since in named
        ),
        tuple(
            PermitWaiter(read(owner.decode(), request.decode()), units, ms / 1000) for owner, request, units, ms in line
        ),
    )
    return snapshot, newest


def downgrade(key: str, owner: str, fence: int, units: int) -> Protocol[bool]:
    """Reduce a grant to `units`, and grant the rest to waiters in the same step; return False if it was over."""
    return bool((yield from insist(script_call("permits/downgrade", key, [owner, fence, units]))))


def force(key: str, channels: str) -> Protocol[int]:
    """End every live grant, notify its holder, and grant the units to waiters. Return the number of ended grants.

    channels: prefix of the channels of all processes. Each call names a fence, so grants made meanwhile do not end.
    """
    ended = 0
    snapshot, newest = yield from _read(key, _MOST, 0)
    while earlier := [held.fence for held in snapshot.holders if held.fence <= newest]:
        for fence in earlier:
            ended += yield script_call("permits/force", key, [0, fence, channels])
        snapshot, _ = yield from _read(key, _MOST, 0)
    return ended
