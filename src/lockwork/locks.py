"""The lock as users hold it: `with lw.lock("order:42") as grant`."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from lockwork import owners
from lockwork.config import Config
from lockwork.durations import Duration, milliseconds, seconds
from lockwork.errors import LockLost, LockTimeout, LockworkError, NotHeld
from lockwork.protocol import keys
from lockwork.protocol import lock as protocol
from lockwork.protocol.leases import Lease
from lockwork.protocol.lock import Granted, LockState, Renewal, Request
from lockwork.runtime.clock import now
from lockwork.runtime.runtime import Runtime
from lockwork.runtime.sync import no_running_loop

log: logging.Logger = logging.getLogger("lockwork")

_requests = itertools.count()
OnLost = Callable[["Grant"], object]


class Grant:
    """A lock in the hands of one task or thread.

    `fence` rises with every grant of the lock: send it along with what you write, and let the store refuse a lower one.
    """

    __slots__ = ("_body", "_cancelled", "_lease", "depth", "fence", "name", "on_lost")

    def __init__(self, name: str, fence: int, on_lost: OnLost | None) -> None:
        self.name: str = name
        self.fence: int = fence
        self.depth: int = 1
        self.on_lost: OnLost | None = on_lost
        self._lease: Lease | None = None
        self._body: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None
        self._cancelled = False

    @property
    def lost(self) -> bool:
        """Whether the lease has ended, by release or by time: from then on somebody else may hold the lock."""
        return self._lease is None or self._lease.lost or now() >= self._lease.deadline

    @property
    def remaining(self) -> float:
        """Seconds that the lease lasts unless it is renewed; 0 when it is lost."""
        return 0.0 if self._lease is None or self._lease.lost else max(0.0, self._lease.deadline - now())

    def check(self) -> None:
        """Raise LockLost if the lease has ended; call it before a step that needs the lock."""
        if self.lost:
            raise LockLost(f"the lease of lock {self.name!r} has ended: somebody else may hold it now")

    def __repr__(self) -> str:
        state = "lost" if self.lost else f"{self.remaining:.1f} s left"
        return f"<Grant {self.name!r} fence={self.fence} {state}>"

    def _told_lost(self) -> None:
        # on the engine's thread
        if self._body is not None:
            loop, _ = self._body
            with contextlib.suppress(RuntimeError):  # the loop is closed: there is nobody to cancel
                loop.call_soon_threadsafe(self._cancel_body)
        if self.on_lost is not None:
            # on a thread of its own: whatever it does, the engine has other leases to keep
            threading.Thread(target=self._call_back, name="lockwork-on-lost", daemon=True).start()

    def _call_back(self) -> None:
        assert self.on_lost is not None
        try:
            self.on_lost(self)
        except Exception:
            log.exception("on_lost of lock %r failed", self.name)

    def _cancel_body(self) -> None:
        if self._body is not None and not self._cancelled:
            self._cancelled = True
            self._body[1].cancel(f"the lease of lock {self.name!r} was lost")


class Lock:
    """A handle to one named lock; it holds nothing itself, so threads and tasks may share it."""

    def __init__(
        self,
        runtime: Runtime,
        config: Config,
        name: str,
        wait: Duration | None,
        lease: Duration | None,
        on_lost: OnLost | None,
    ) -> None:
        self.name: str = keys.checked(name, "a lock's name")
        self._key = keys.lock(config.prefix, name)
        self._runtime = runtime
        self._wait = None if wait is None else seconds(wait, "wait", zero=True)
        self._lease_ms = milliseconds(config.lock_lease if lease is None else lease, "lease")
        self._renewed = lease is None
        self._on_lost = on_lost

    def acquire(self, wait: Duration | None = None) -> Grant:
        """Wait in line for the lock, at most `wait` (None: as given to the handle), and return the grant.

        The owner is the current thread or task; it may acquire again, and releases as often as it acquired.
        Raises LockTimeout.
        """
        owner, again = self._enter()
        if again is not None:
            return again
        request = self._request(owner)
        return self._keep(owner, request, self._runtime.run(protocol.acquire(request, self._patience(wait))))

    async def aacquire(self, wait: Duration | None = None) -> Grant:
        """The same for a task; cancelled, it leaves the line, or gives the lock back."""
        owner, again = self._enter()
        if again is not None:
            return again
        request = self._request(owner)
        granted = await self._runtime.arun(protocol.acquire(request, self._patience(wait)))
        return self._keep(owner, request, granted)

    def try_acquire(self) -> Grant | None:
        """Take the lock if it is free and nobody waits for it; None otherwise."""
        try:
            return self.acquire(wait=0)
        except LockTimeout:
            return None

    async def atry_acquire(self) -> Grant | None:
        """The same for a task."""
        try:
            return await self.aacquire(wait=0)
        except LockTimeout:
            return None

    def release(self) -> None:
        """Release once; the last release hands the lock to the next in line. Raises NotHeld or LockLost."""
        no_running_loop()
        owner, grant, in_time = self._leave()
        if grant is not None:
            kept = self._runtime.run(protocol.release(self._key, self._owner(owner), grant.fence))
            self._check_released(grant, kept and in_time)

    async def arelease(self) -> None:
        """The same for a task."""
        owner, grant, in_time = self._leave()
        if grant is not None:
            kept = await self._runtime.arun(protocol.release(self._key, self._owner(owner), grant.fence))
            self._check_released(grant, kept and in_time)

    def held(self) -> bool:
        """Whether the current thread or task holds the lock, and its lease has not ended."""
        grant = self._runtime.grants.get((self._key, owners.current()))
        return grant is not None and not grant.lost

    def state(self) -> LockState:
        """Read from the server who holds the lock and how many wait."""
        return self._runtime.run(protocol.state(self._key))

    async def astate(self) -> LockState:
        """The same for a task."""
        return await self._runtime.arun(protocol.state(self._key))

    def __enter__(self) -> Grant:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.release()
        except LockworkError:
            if error is None:
                raise

    async def __aenter__(self) -> Grant:
        grant = await self.aacquire()
        if grant.depth == 1:
            task = asyncio.current_task()
            assert task is not None
            grant._body = asyncio.get_running_loop(), task  # noqa: SLF001 - a grant and its lock are one thing
        return grant

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        grant = self._runtime.grants.get((self._key, owners.current()))
        ends = grant is not None and grant.depth == 1
        if grant is not None and ends:
            grant._body, body = None, grant._body  # noqa: SLF001 - from here on nobody cancels us for this lock
            if grant._cancelled and body is not None:  # noqa: SLF001
                await self._after_cancelled(grant, body[1], error)
                return
        try:
            await self.arelease()
        except LockworkError:
            if error is None:
                raise

    async def _after_cancelled(self, grant: Grant, task: asyncio.Task[Any], error: BaseException | None) -> None:
        """The engine cancelled the body because the lease was lost: turn that, and only that, into LockLost."""
        others = task.uncancel()
        self._leave()
        if error is None or (isinstance(error, asyncio.CancelledError) and others == 0):
            try:
                await asyncio.sleep(0)  # the body ended before its cancellation arrived: it arrives here
            except asyncio.CancelledError:
                if others:
                    raise
            raise LockLost(f"the lease of lock {grant.name!r} was lost, and the body was cancelled") from error

    def _enter(self) -> tuple[int, Grant | None]:
        owner = owners.current()
        grant = self._runtime.grants.get((self._key, owner))
        if grant is None:
            return owner, None
        grant.check()
        grant.depth += 1
        return owner, grant

    def _leave(self) -> tuple[int, Grant | None, bool]:
        """Undo one `_enter`; returns the grant if that was the last one, and whether its lease still ran."""
        owner = owners.current()
        grant = self._runtime.grants.get((self._key, owner))
        if grant is None:
            raise NotHeld(f"lock {self.name!r} is not held by this thread or task")
        grant.depth -= 1
        if grant.depth:
            return owner, None, True
        in_time = not grant.lost
        del self._runtime.grants[self._key, owner]
        lease = grant._lease  # noqa: SLF001
        assert lease is not None
        self._runtime.engine.drop(lease)
        lease.lost = True  # whoever still looks at the grant must not take it for held
        return owner, grant, in_time

    def _keep(self, owner: int, request: Request, granted: Granted) -> Grant:
        grant = Grant(self.name, granted.fence, self._on_lost)
        renewal = Renewal(request.key, request.owner, granted.fence, request.lease_ms)
        lease = Lease(renewal, granted, now(), renewed=self._renewed, on_lost=grant._told_lost)  # noqa: SLF001
        grant._lease = lease  # noqa: SLF001
        self._runtime.grants[self._key, owner] = grant
        self._runtime.engine.keep(lease)
        return grant

    def _request(self, owner: int) -> Request:
        return Request(
            self._key,
            self.name,
            self._owner(owner),
            f"{self._runtime.process}.{next(_requests):x}",
            self._runtime.channel,
            self._lease_ms,
            self._renewed,
        )

    def _owner(self, owner: int) -> str:
        return f"{self._runtime.process}:{owner}"

    def _patience(self, wait: Duration | None) -> float | None:
        return self._wait if wait is None else seconds(wait, "wait", zero=True)

    def _check_released(self, grant: Grant, kept: bool) -> None:
        if not kept:
            raise LockLost(
                f"the lease of lock {grant.name!r} ended before it was released: somebody else may have held it"
            )

    def __repr__(self) -> str:
        return f"<Lock {self.name!r}>"
