"""A lock on one string key, `SET key token NX PX`, compatible with other libraries and languages."""

from __future__ import annotations

from msgspec import Struct

from lockwork.protocol.effects import Protocol, script_call
from lockwork.protocol.formats import polling
from lockwork.protocol.locks.grants import Granted, LockScripts, Request

SCRIPTS = LockScripts("formats/plain_acquire", "formats/plain_release", "formats/plain_release", "formats/plain_renew")


class PlainState(Struct, frozen=True):
    """State of the key: `token` is None when the lock is free; `expires_in` is in seconds, None without an expiry."""

    token: bytes | None
    expires_in: float | None


def acquire(asked: Request, wait: float | None, missing_ms: int = 0) -> Protocol[Granted]:
    """Set the key to the owner, which is a new token for each acquisition; see polling.acquire.

    A key without an expiry receives an expiry of `missing_ms`, unless that is 0.
    """
    call = script_call(SCRIPTS.acquire, asked.key, [asked.owner, asked.lease_ms, missing_ms])
    return polling.acquire(asked, wait, call)


def state(key: str) -> Protocol[PlainState]:
    """Read the state of the lock."""
    held, token, remaining_ms = yield script_call("formats/plain_state", key, [])
    return PlainState(token, remaining_ms / 1000 if remaining_ms >= 0 else None) if held else PlainState(None, 0.0)


def force(key: str) -> Protocol[bool]:
    """End the lock of any holder; return False if it is free, or ended meanwhile."""
    lock_state = yield from state(key)
    if lock_state.token is None:
        return False
    # the token names the acquisition: a repeated call after a lost reply must not end the next acquisition
    return bool((yield script_call(SCRIPTS.release, key, [0, lock_state.token])))
