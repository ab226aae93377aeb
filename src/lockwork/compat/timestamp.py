"""A lock whose value is the Unix time of its end, shared with clients that use SETNX and GETSET or EXPIRE."""

from __future__ import annotations

from secrets import randbelow
from typing import ClassVar

from lockwork.app.lockwork import Lockwork
from lockwork.compat.polled import PolledLock
from lockwork.durations import Duration
from lockwork.errors import ConfigError
from lockwork.locks.grant import OnLost
from lockwork.protocol.effects import Protocol
from lockwork.protocol.formats import timestamp as timestamp_protocol
from lockwork.protocol.formats.timestamp import MICROSECONDS, TimestampState, Unit
from lockwork.protocol.locks.grants import Granted, LockScripts, Request


class TimestampLock(PolledLock):
    """A single atomic step by the server's clock; the other side needs several steps, and trusts its own clock.

    `key` is the complete key. The value is a time in `unit`, at or up to one unit after the end of the lease, with nine
    decimals that distinguish Lockwork's values from all others: the other program must read it as a decimal number.

    If the time of a value has passed, the lock is free; otherwise it is held, with or without an expiry of the key. A
    value with fewer than nine decimals was truncated, so it lasts to the end of its last digit: `1795000000` ends at
    1795000001. If a client with a wrong clock overwrites the value, the lock counts as lost.
    """

    scripts: ClassVar[LockScripts] = timestamp_protocol.SCRIPTS
    noun: ClassVar[str] = "timestamp lock"

    def __init__(
        self,
        lw: Lockwork,
        key: str,
        *,
        wait: Duration | None = None,
        lease: Duration | None = None,
        on_lost: OnLost | None = None,
        unit: Unit = "s",
    ) -> None:
        super().__init__(lw, key, wait=wait, lease=lease, on_lost=on_lost)
        if unit not in MICROSECONDS:
            raise ConfigError(f'unit must be "s" or "ms", not {unit!r}')
        self._unit: Unit = unit

    def inspect(self) -> TimestampState:
        """Read the value of the key from the server."""
        return self._runtime.run(timestamp_protocol.state(self._key))

    async def ainspect(self) -> TimestampState:
        """Async version of `inspect`."""
        return await self._runtime.arun(timestamp_protocol.state(self._key))

    def locked(self) -> bool:
        """Return True if the lock is held: its time is in the future."""
        return self.inspect().expires_in > 0

    async def alocked(self) -> bool:
        """Async version of `locked`."""
        return (await self.ainspect()).expires_in > 0

    def force_release(self) -> bool:
        """Release the lock by force; True if it was held.

        A holder that uses Lockwork notices at its next renewal.
        """
        return self._runtime.run(timestamp_protocol.force(self._key))

    async def aforce_release(self) -> bool:
        """Async version of `force_release`."""
        return await self._runtime.arun(timestamp_protocol.force(self._key))

    def _request_grant(self, request: Request, wait: float | None) -> Protocol[Granted]:
        return timestamp_protocol.acquire(request, wait, self._unit)

    def _token(self, request: Request) -> str:  # noqa: ARG002 - theirs is a number, so ours cannot say who we are
        return f"{randbelow(10**9):09}"
