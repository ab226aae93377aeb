"""A lock on one string key whose value is the Unix time at which it ends, as SETNX and GETSET have been used for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lockwork.protocol.effects import Argument, Protocol, script_call
from lockwork.protocol.formats import polling
from lockwork.protocol.locks.grants import Granted, LockScripts, Request

SCRIPTS = LockScripts(
    "formats/timestamp_acquire", "formats/timestamp_release", "formats/timestamp_release", "formats/timestamp_renew"
)

Unit = Literal["s", "ms"]

MICROSECONDS: dict[Unit, int] = {"s": 1_000_000, "ms": 1000}


@dataclass(frozen=True, slots=True)
class TimestampState:
    """What the key holds: `value` is None when there is none; `expires_in` is the seconds until its time, 0 when past.

    `has_expiry` is False for a value that the server would keep for ever.
    """

    value: bytes | None
    expires_in: float
    has_expiry: bool


def acquire(asked: Request, wait: float | None, unit: Unit) -> Protocol[Granted]:
    """Set the key to our end time; see polling.acquire. The owner is nine digits, which stand behind the point."""
    args: list[Argument] = [asked.owner, asked.lease_ms, MICROSECONDS[unit]]
    return polling.acquire(asked, wait, script_call(SCRIPTS.acquire, asked.key, args))


def state(key: str) -> Protocol[TimestampState]:
    """Read when the lock ends."""
    held, value, left, expiry = yield script_call("formats/timestamp_state", key, [])
    return TimestampState(value if held else None, left / 1000, bool(expiry))


def force(key: str) -> Protocol[bool]:
    """End the lock of any holder; False if it is free, or was renewed or ended that moment."""
    seen = yield from state(key)
    if seen.value is None or not seen.expires_in:
        return False
    # compared as a whole: called again after a lost reply, it must not end the next one
    return bool((yield script_call("formats/plain_release", key, [0, seen.value])))
