"""A lock on one string key whose value is the Unix time of its end, compatible with locks that use SETNX and GETSET."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from lockwork.protocol.effects import Argument, Protocol, script_call
from lockwork.protocol.formats import polling
from lockwork.protocol.locks.grants import Granted, LockScripts, Request

SCRIPTS = LockScripts(
    "formats/timestamp_acquire", "formats/timestamp_release", "formats/timestamp_release", "formats/timestamp_renew"
)

Unit = Literal["s", "ms"]

MICROSECONDS: dict[Unit, int] = {"s": 1_000_000, "ms": 1000}


class TimestampState(Struct, frozen=True):
    """State of the key: `value` is None without a value; `expires_in` is the seconds until its time, 0 when past.

    `has_expiry` is False for a value without an expiry on the server.
    """

    value: bytes | None
    expires_in: float
    has_expiry: bool


def acquire(asked: Request, wait: float | None, unit: Unit) -> Protocol[Granted]:
    """Set the key to the end time; see polling.acquire. The owner is nine digits, which follow the decimal point."""
    args: list[Argument] = [asked.owner, asked.lease_ms, MICROSECONDS[unit]]
    return polling.acquire(asked, wait, script_call(SCRIPTS.acquire, asked.key, args))


def state(key: str) -> Protocol[TimestampState]:
    """Read the end time of the lock."""
    held, value, remaining_ms, expiry = yield script_call("formats/timestamp_state", key, [])
    return TimestampState(value if held else None, remaining_ms / 1000, bool(expiry))


def force(key: str) -> Protocol[bool]:
    """End the lock of any holder; return False if it is free, or was renewed or ended at that moment."""
    lock_state = yield from state(key)
    if lock_state.value is None or not lock_state.expires_in:
        return False
    # the whole value is compared: a repeated call after a lost reply must not end the next lock
    return bool((yield script_call("formats/plain_release", key, [0, lock_state.value])))
