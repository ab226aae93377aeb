"""A lock on one string key, shared with redis-py's `Lock`, Laravel's cache lock, node-redlock or redsync."""

from __future__ import annotations

from typing import ClassVar

from lockwork.app.lockwork import Lockwork
from lockwork.compat.polled import PolledLock
from lockwork.durations import Duration, milliseconds
from lockwork.locks.grant import OnLost
from lockwork.protocol.effects import Protocol
from lockwork.protocol.formats import plain as plain_protocol
from lockwork.protocol.formats.plain import PlainState
from lockwork.protocol.locks.grants import Granted, LockScripts, Request


class PlainLock(PolledLock):
    """`SET key token NX PX`, renewed and deleted only while the key holds this lock's token.

    `key` is the complete key of the other program: redis-py's Lock uses its name unchanged, Laravel adds the prefixes
    of its connection and its cache. The token is new for every acquisition.

    `missing_expiry` is for holders that always set an expiry, but in a second command (SETNX, EXPIRE). If such a holder
    dies in between, its key has no expiry; it ends this long after a Lockwork caller requests the lock. Choose a time
    longer than any holder works. Without it, callers wait for a key without an expiry until it is deleted.
    """

    scripts: ClassVar[LockScripts] = plain_protocol.SCRIPTS
    noun: ClassVar[str] = "plain lock"

    def __init__(
        self,
        lw: Lockwork,
        key: str,
        *,
        wait: Duration | None = None,
        lease: Duration | None = None,
        on_lost: OnLost | None = None,
        missing_expiry: Duration | None = None,
    ) -> None:
        super().__init__(lw, key, wait=wait, lease=lease, on_lost=on_lost)
        self._missing_ms = 0 if missing_expiry is None else milliseconds(missing_expiry, "missing_expiry")

    def inspect(self) -> PlainState:
        """Read the key's token and remaining time from the server."""
        return self._runtime.run(plain_protocol.state(self._key))

    async def ainspect(self) -> PlainState:
        """Async version of `inspect`."""
        return await self._runtime.arun(plain_protocol.state(self._key))

    def locked(self) -> bool:
        """Return whether the lock is held."""
        return self.inspect().token is not None

    async def alocked(self) -> bool:
        """Async version of `locked`."""
        return (await self.ainspect()).token is not None

    def token(self) -> str:
        """Return the value of the key while this thread or asyncio task holds the lock, for use by another program.

        For Laravel it is the owner of `Cache::restoreLock`. Raises NotHeld.
        """
        lease = self._current_hold().lease
        assert lease is not None
        return lease.renewal.owner

    def force_release(self) -> bool:
        """Release the lock by force; True if it was held.

        A holder that uses Lockwork notices at its next renewal.
        """
        return self._runtime.run(plain_protocol.force(self._key))

    async def aforce_release(self) -> bool:
        """Async version of `force_release`."""
        return await self._runtime.arun(plain_protocol.force(self._key))

    def _request_grant(self, request: Request, wait: float | None) -> Protocol[Granted]:
        return plain_protocol.acquire(request, wait, self._missing_ms)
