"""What all handles share that are acquired and released by an owner: one surface, for threads and asyncio alike."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any

from lockwork import owners
from lockwork.durations import Duration
from lockwork.errors import LockLost, LockTimeout, LockworkError, NotHeld
from lockwork.locks.grant import Grant
from lockwork.locks.ownership import Holding
from lockwork.owners import Owner
from lockwork.protocol.effects import Protocol
from lockwork.runtime.sync_driver import no_running_loop


class Handle(Holding):
    """The methods that users call; what they do to the grants of this process is in Holding."""

    def acquire(self, wait: Duration | None = None) -> Grant:
        """Wait in line, at most `wait` (None: as given to the handle), and return the grant.

        The owner is the current thread or task; it may acquire again, and releases as often as it acquired.
        Raises LockTimeout.
        """
        owner, again = self._enter()
        if again is not None:
            return again
        return self._runtime.run(self._getting(owner, wait))

    async def aacquire(self, wait: Duration | None = None) -> Grant:
        """Async version of `acquire`; cancelled, it leaves the line, or gives back what it got."""
        owner, again = self._enter()
        if again is not None:
            return again
        return await self._runtime.arun(self._getting(owner, wait))

    def try_acquire(self) -> Grant | None:
        """Take it if it is free and nobody waits for it; None otherwise."""
        try:
            return self.acquire(wait=0)
        except LockTimeout:
            return None

    async def atry_acquire(self) -> Grant | None:
        """Async version of `try_acquire`."""
        try:
            return await self.aacquire(wait=0)
        except LockTimeout:
            return None

    def release(self) -> None:
        """Release once; the last release hands it to the next in line. Raises NotHeld or LockLost."""
        no_running_loop()
        grant = self._mine()
        grant.depth -= 1
        if not grant.depth:
            grant._handle._release_whole(grant)

    async def arelease(self) -> None:
        """Async version of `release`."""
        grant = self._mine()
        grant.depth -= 1
        if not grant.depth:
            await grant._handle._arelease_whole(grant)

    def release_all(self) -> None:
        """Release it however often the current thread or task acquired it. Raises NotHeld or LockLost."""
        no_running_loop()
        grant = self._mine()
        grant._handle._release_whole(grant)

    async def arelease_all(self) -> None:
        """Async version of `release_all`."""
        grant = self._mine()
        await grant._handle._arelease_whole(grant)

    def extend(self, lease: Duration | None = None) -> None:
        """Let the lease last for `lease` from now on at least (None: as first given). Raises NotHeld, LockLost."""
        self._mine().extend(lease)

    async def aextend(self, lease: Duration | None = None) -> None:
        """Async version of `extend`."""
        await self._mine().aextend(lease)

    def held(self) -> bool:
        """Whether the current thread or task holds it, and its lease has not ended."""
        grant = self._runtime.grants.get((self._key, owners.current()))
        return grant is not None and not grant.lost

    def __enter__(self) -> Grant:
        grant = self.acquire()
        grant._bodies += 1
        return grant

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._leave_body() is None:
            return
        try:
            self.release()
        except LockworkError:
            if error is None:
                raise

    async def __aenter__(self) -> Grant:
        grant = await self.aacquire()
        grant._bodies += 1
        if grant._body is None:
            task = asyncio.current_task()
            assert task is not None
            grant._body, grant._level = (asyncio.get_running_loop(), task), grant._bodies
        return grant

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        grant = self._leave_body()
        if grant is None:
            return
        if grant._bodies < grant._level:
            grant._level = 0
            body, grant._body = grant._body, None  # from here on nobody cancels us for this grant
            if grant._cancelled and body is not None:
                await self._after_cancelled(grant, body[1], error)
                return
        try:
            await self.arelease()
        except LockworkError:
            if error is None:
                raise

    def _getting(self, owner: Owner, wait: Duration | None) -> Protocol[Grant]:
        asked = self._request(owner)
        return self._booked(owner, asked, self._acquiring(asked, self._patience(wait)))

    def _leave_body(self) -> Grant | None:
        """The grant to release at the end of a body; None when the body has given it up itself."""
        place = self._key, owners.current()
        grant: Grant | None = self._runtime.grants.get(place)
        if grant is None:
            raise NotHeld(f"{self.noun} {self.name!r} is not held by this thread or task")
        if grant._bodies:
            grant._bodies -= 1
        if grant._lease is not None:
            return grant
        if not grant._bodies:
            del self._runtime.grants[place]
        return None

    async def _after_cancelled(self, grant: Grant, task: asyncio.Task[Any], error: BaseException | None) -> None:
        """The engine cancelled the body because the lease was lost: turn that, and only that, into LockLost."""
        others = task.uncancel()
        self._give_up(grant)
        if error is None or (isinstance(error, asyncio.CancelledError) and others == 0):
            try:
                await asyncio.sleep(0)  # the body ended before its cancellation arrived: it arrives here
            except asyncio.CancelledError:
                if others:
                    raise
            raise LockLost(f"the lease of {self.noun} {self.name!r} was lost, and the body was cancelled") from error
