"""The locks that this process holds, and an overview of all locks on the server."""

from __future__ import annotations

import contextlib

from lockwork.errors import ConfigError, LockLost, NotHeld
from lockwork.protocol.effects import Protocol
from lockwork.protocol.locks import overview
from lockwork.protocol.locks.overview import Overview
from lockwork.protocol.names import checked_name
from lockwork.runtime.drive import no_running_loop
from lockwork.runtime.runtime import LockObserver, Runtime


class ProcessLocks:
    """Releases, observes and lists locks."""

    def __init__(self, runtime: Runtime, prefix: str) -> None:
        self._runtime = runtime
        self._prefix = prefix

    def observe(self, observer: LockObserver) -> None:
        """See `Lockwork.observe_locks`."""
        if self._runtime.lock_observer is not None:
            raise ConfigError("the locks of this app already have an observer")
        self._runtime.lock_observer = observer

    def release_all(self) -> int:
        """See `Lockwork.release_all`."""
        no_running_loop()
        released = 0
        for hold in list(self._runtime.holds.values()):
            with contextlib.suppress(NotHeld, LockLost):
                hold.release()
                released += 1
        self._runtime.return_idle()
        return released

    async def arelease_all(self) -> int:
        """Async version of `release_all`."""
        released = 0
        for hold in list(self._runtime.holds.values()):
            with contextlib.suppress(NotHeld, LockLost):
                await hold.arelease()
                released += 1
        await self._runtime.areturn_idle()
        return released

    def overview(self, pattern: str) -> Protocol[Overview]:
        """Read the locks that match; see `Lockwork.locks`."""
        return overview.read_locks(self._prefix, checked_name(pattern, "a pattern of locks' names"))
