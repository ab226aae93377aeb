"""Grants, which `acquire` returns, and exported grants."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import msgspec

from lockwork import words
from lockwork.durations import Duration
from lockwork.errors import ConfigError, LockworkError
from lockwork.locks.hold import Hold
from lockwork.protocol import names

_LONGEST = 2000
"""Characters of an exported grant."""

OnLost = Callable[["Grant"], object]


class Grant:
    """The right of one task or thread to hold a lock, with its lease and fence.

    `fence` rises with every grant: send it with each write, and let the store refuse a lower one.
    """

    __slots__ = ("__weakref__", "_hold", "fence", "name")

    def __init__(self, hold: Hold[Any]) -> None:
        self._hold = hold
        self.name: str = hold.options.name
        self.fence: int = hold.fence

    @property
    def depth(self) -> int:
        """Number of acquisitions that the owner has not yet released."""
        return self._hold.depth

    @property
    def on_lost(self) -> OnLost | None:
        """Called with the grant, on another thread, when its lease ends while it is held."""
        return self._hold.on_lost

    @on_lost.setter
    def on_lost(self, called: OnLost | None) -> None:
        self._hold.on_lost = called

    @property
    def lost(self) -> bool:
        """True if the lease has ended, by release or by time; another owner may hold the lock then."""
        return self._hold.lost

    @property
    def remaining(self) -> float:
        """Seconds that the lease lasts unless it is renewed; 0 when it is lost."""
        return self._hold.remaining

    def check(self) -> None:
        """Raise LockLost if the lease has ended; call it before a step that needs the lock."""
        self._hold.check()

    def extend(self, lease: Duration | None = None) -> None:
        """Make the lease last at least `lease` from now (None: the original lease). Raises LockLost."""
        self._hold.options.runner.run(self._hold.extend(lease))

    async def aextend(self, lease: Duration | None = None) -> None:
        """Async version of `extend`."""
        await self._hold.options.runner.arun(self._hold.extend(lease))

    def release(self) -> None:
        """Release it completely, from any thread. Raises NotHeld or LockLost."""
        self._hold.release()

    async def arelease(self) -> None:
        """Async version of `release`."""
        await self._hold.arelease()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._hold.lease is None:
            return  # released inside
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
        if self._hold.lease is None:
            return
        try:
            await self.arelease()
        except LockworkError:
            if error is None:
                raise

    def __repr__(self) -> str:
        state = "lost" if self.lost else f"{words.time_left(self.remaining)} left"
        return f"<Grant {names.display(self.name)!r} fence={self.fence} {state}>"


class LockHold(Hold[Grant]):
    """A hold whose user has a plain Grant."""

    __slots__ = ()
    grant_class = Grant


class ExportedGrant(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """The content of an exported grant: the lock's key, the owner and the fence."""

    key: str
    owner: str
    fence: int

    def text(self) -> str:
        """Return the text for `export`."""
        return urlsafe_b64encode(msgspec.json.encode(self)).decode()


def read_export(exported: str, key: str) -> ExportedGrant:
    """Read the text again; raises ConfigError when it is not one of ours, or another lock's."""
    try:
        if not isinstance(exported, str) or len(exported) > _LONGEST:
            raise ValueError
        grant = msgspec.json.decode(urlsafe_b64decode(exported.encode("ascii")), type=ExportedGrant)
    except (ValueError, binascii.Error, msgspec.MsgspecError):
        raise ConfigError("this is not a text that a lock's export() has returned") from None
    if grant.key != key:
        raise ConfigError(
            f"this grant was exported by {names.shown(grant.key)!r}, and cannot be adopted by {names.shown(key)!r}"
        )
    return grant
