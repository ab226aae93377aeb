"""What an acquire returns: the grant, which knows whether its lease still runs."""

from __future__ import annotations

import asyncio
import binascii
import contextlib
import threading
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Generator
from dataclasses import replace
from types import TracebackType
from typing import Any, ClassVar, Self
from typing import Protocol as Shape

import msgspec

from lockwork.durations import Duration
from lockwork.errors import ConfigError, LockLost, LockworkError
from lockwork.logs import Log
from lockwork.owners import Owner
from lockwork.protocol.effects import Protocol
from lockwork.protocol.locks import grants
from lockwork.protocol.locks.grants import Request
from lockwork.protocol.locks.leases import Lease
from lockwork.runtime.clock import now
from lockwork.runtime.runtime import Runtime

_LONGEST = 2000
"""Characters of an exported grant."""


class Issuer(Shape):
    """What a grant needs of the handle that issued it; see Holding in ownership.py."""

    noun: ClassVar[str]
    name: str
    _key: str
    _lease_ms: int
    _on_lost: OnLost | None
    _runtime: Runtime

    def _release_whole(self, grant: Grant) -> None: ...
    async def _arelease_whole(self, grant: Grant) -> None: ...
    def _lengthen(self, grant: Grant, lease: Duration | None) -> Generator[Any, Any, None]: ...
    def _forget(self, grant: Grant) -> tuple[Lease, bool] | None: ...
    def _ending(self, grant: Grant) -> tuple[Any, ...]: ...
    def _end(self, lease: Lease, ending: tuple[Any, ...]) -> Generator[Any, Any, bool]: ...
    def _request(self, owner: Owner) -> Request: ...


class Passed(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """What the text says: which grant of which lock."""

    key: str
    owner: str
    fence: int


def export(handle: Issuer, grant: Grant, lease: Lease, lease_ms: int) -> Protocol[str]:
    """Transfer `grant`, which this process has just forgotten, to the adopter of the text; on failure, release it."""
    asked = handle._request(grant._owner)
    # Nobody's owner: were it the exporter's, then the exporter, asking again, would look to the server like the holder.
    transit = replace(asked, owner=f"{asked.owner}~{asked.request}", lease_ms=lease_ms, kind="lock")
    renewal = lease.renewal
    try:
        moved = yield from grants.adopt(transit, renewal.owner, renewal.fence)
    except GeneratorExit:
        raise
    except BaseException:
        yield from grants.abandon(transit)
        with contextlib.suppress(LockworkError):
            yield from grants.release(renewal.key, renewal.owner, renewal.fence, patience=1)
        raise
    if moved is None:
        raise LockLost(f"the lease of {handle.noun} {grant.name!r} ended before it could be exported")
    return urlsafe_b64encode(msgspec.json.encode(Passed(asked.key, transit.owner, moved.fence))).decode()


def read_export(exported: str, key: str) -> Passed:
    """Read it again; raises ConfigError when it is not one of ours, or another lock's."""
    try:
        if not isinstance(exported, str) or len(exported) > _LONGEST:
            raise ValueError
        passed = msgspec.json.decode(urlsafe_b64decode(exported.encode("ascii")), type=Passed)
    except (ValueError, binascii.Error, msgspec.MsgspecError):
        raise ConfigError("this is not a text that export() of a lock has returned") from None
    if passed.key != key:
        raise ConfigError(f"this grant was exported by {passed.key!r}, and cannot be adopted by {key!r}")
    return passed


log: Log = Log("lockwork")

OnLost = Callable[["Grant"], object]


class Grant:
    """A lock, or a place of another kind, in the hands of one task or thread.

    `fence` rises with every grant: send it along with what you write, and let the store refuse a lower one.
    """

    __slots__ = (
        "_bodies",
        "_body",
        "_cancelled",
        "_handle",
        "_lease",
        "_level",
        "_owner",
        "_since",
        "depth",
        "fence",
        "name",
        "on_lost",
    )

    def __init__(self, handle: Issuer, owner: Owner, fence: int, lease: Lease, since: float) -> None:
        self.name: str = handle.name
        self.fence: int = fence
        self.depth: int = 1
        self.on_lost: OnLost | None = handle._on_lost
        self._handle = handle
        self._owner = owner
        self._lease: Lease | None = lease
        self._since = since
        self._bodies = 0
        self._body: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None
        self._level = 0
        """How many bodies there were when the one began that is cancelled if the lease is lost."""
        self._cancelled = False

    @property
    def lost(self) -> bool:
        """Whether the lease has ended, by release or by time: from then on somebody else may hold the lock."""
        lease = self._lease  # once: another thread may end it meanwhile
        return lease is None or lease.lost or now() >= lease.deadline

    @property
    def remaining(self) -> float:
        """Seconds that the lease lasts unless it is renewed; 0 when it is lost."""
        lease = self._lease
        return 0.0 if lease is None or lease.lost else max(0.0, lease.deadline - now())

    def check(self) -> None:
        """Raise LockLost if the lease has ended; call it before a step that needs the lock."""
        if self.lost:
            raise LockLost(f"the lease of {self._handle.noun} {self.name!r} has ended: somebody else may hold it now")

    def extend(self, lease: Duration | None = None) -> None:
        """Let the lease last for `lease` from now on at least (None: as long as when acquired). Raises LockLost."""
        self._handle._runtime.run(self._handle._lengthen(self, lease))

    async def aextend(self, lease: Duration | None = None) -> None:
        """Async version of `extend`."""
        await self._handle._runtime.arun(self._handle._lengthen(self, lease))

    def release(self) -> None:
        """Give it back from any thread, however often it was entered. Raises LockLost."""
        self._handle._release_whole(self)

    async def arelease(self) -> None:
        """Async version of `release`."""
        await self._handle._arelease_whole(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lease is None:
            return  # given up inside
        try:
            self.release()
        except LockworkError:
            if error is None:
                raise

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lease is None:
            return
        try:
            await self.arelease()
        except LockworkError:
            if error is None:
                raise

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
            try:
                threading.Thread(target=self._call_back, name="lockwork-on-lost", daemon=True).start()
            except RuntimeError as error:  # the system has none to give
                log.error("on_lost of %s %r could not be called: %s", self._handle.noun, self.name, error)

    def _call_back(self) -> None:
        assert self.on_lost is not None
        try:
            self.on_lost(self)
        except Exception:
            log.exception("on_lost of %s %r failed", self._handle.noun, self.name)

    def _cancel_body(self) -> None:
        if self._body is not None and not self._cancelled:
            self._cancelled = True
            self._body[1].cancel(f"the lease of {self._handle.noun} {self.name!r} was lost")
