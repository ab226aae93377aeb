"""One run of what runs once per period, in this process: its lease is renewed while it goes on, and its end is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal

from lockwork import codecs
from lockwork.errors import LockLost, LockworkError
from lockwork.protocol.effects import Protocol
from lockwork.protocol.locks.grants import Granted, Renewal
from lockwork.protocol.locks.leases import Lease
from lockwork.protocol.synchronizers import once as protocol
from lockwork.protocol.synchronizers.once import Asked
from lockwork.runtime.clock import now
from lockwork.runtime.runtime import Runtime

_TEXT = 1000
"""Characters of a failure's text that are kept."""
_running: set[tuple[str, str]] = set()
"""Owners and keys of what runs in this process now."""


def runs_here(owner: str, key: str) -> bool:
    """Whether this thread or task is in the middle of that very run."""
    return (owner, key) in _running


class Run:
    """From its beginning to what is kept of it."""

    def __init__(self, runtime: Runtime, asked: Asked, granted: Granted, cap: int) -> None:
        self._runtime = runtime
        self._process = runtime.process
        self._name = asked.name
        self._cap = cap
        self._state: Literal["d", "f", "l"] = "l"
        self._value = b""
        renewal = Renewal(asked.key, asked.owner, granted.fence, asked.lease_ms, "once_renew")
        self._lease = Lease(renewal, granted, now(), renewed=True, on_lost=_nothing)
        _running.add((asked.owner, asked.key))
        runtime.engine.keep(self._lease)

    def succeeded(self, value: object) -> None:
        """Raises ConfigError or PayloadTooLarge, and the run counts as failed, when the result cannot be kept."""
        try:
            self._state, self._value = "d", codecs.encode(value, "the result", self._cap)
        except LockworkError as error:
            self.failed(error)
            raise

    def failed(self, error: BaseException) -> None:
        self._state, self._value = "f", _failure(type(error).__name__, str(error))

    def interrupted(self, error: BaseException) -> None:
        self._state, self._value = "l", _failure(type(error).__name__, "its runner was interrupted")

    def over(self, *, quietly: bool = False) -> Protocol[None]:
        """Keep what came of it; raises LockLost if its lease ended meanwhile and it does not count any more."""
        if self._process != self._runtime.process:
            return  # a fork inside of the run comes to its end, too: the run is the parent's
        renewal, lease = self._lease.renewal, self._lease
        _running.discard((renewal.owner, renewal.key))
        lost = lease.lost or now() >= lease.deadline
        self._runtime.engine.drop(lease)
        try:
            kept = yield from protocol.end(renewal.key, renewal.owner, renewal.fence, self._state, self._value)
        except LockworkError:
            if not quietly:
                raise
            return
        # without a lost lease, somebody has reset it, who knew what he did
        if not kept and lost and not quietly:
            raise LockLost(
                f"once {self._name!r} lost its lease while it ran: it may have run again, "
                "and this run's result is not kept"
            )


async def in_thread(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call it in a thread, and wait for its end even when this task is cancelled: the thread cannot be."""
    running = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    cancelled: asyncio.CancelledError | None = None
    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        running.exception()  # so that it counts as seen
        raise cancelled
    return running.result()


def _failure(type: str, text: str) -> bytes:
    return codecs.encode([type, text.encode(errors="replace").decode()[:_TEXT]], "a failure", 1 << 20)


def _nothing() -> None:
    return None
