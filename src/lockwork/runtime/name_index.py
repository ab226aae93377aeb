"""The names of queues, stocks, limiters and locks that this process adds to their index on the server.

Any thread records a name after the first call that uses it. The engine's thread adds the recorded names, so no caller
waits. It adds names in use again each minute, because the server may have lost its data.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from math import inf
from typing import TYPE_CHECKING

from lockwork.errors import ServerRefused
from lockwork.logs import Log
from lockwork.protocol.effects import Call
from lockwork.protocol.index import index
from lockwork.protocol.index.index import LOCKS, IndexedKind
from lockwork.protocol.queue.sessions import within
from lockwork.runtime.clock import now

if TYPE_CHECKING:  # it imports redis-py, which an app needs only when it uses a server
    from lockwork.runtime.sync_driver import SyncDriver

log: Log = Log("lockwork")

EVERY = 60.0
"""Seconds until a name in use is added again."""
_PAUSE = 1.0
"""Seconds between two calls; the first recorded name is added at once."""
_TROUBLED = 5.0
"""Seconds until the next try after an error."""
_REFUSED = 3600.0
"""Seconds until the next try after the server refused: its access rules rarely change soon."""
_IDLE = 5.0
"""Seconds until the connection of the last call is closed, if no other call needs it."""
_PATIENCE = 0.2
"""Time limit of a call in seconds: the engine's thread must also renew leases."""
_MOST = 10_000
"""Maximum number of names recorded between two calls; more names are dropped."""


class NameIndex:
    """Names that any thread records and the engine's thread adds.

    The index has no lock, because a signal handler may use a name while it interrupts a caller in this class. Threads
    synchronize by single dictionary operations.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._used: dict[str, None] = {}
        """Keys recorded since the last reset."""
        self._noted: dict[tuple[IndexedKind, str], None] = {}
        """Names to add."""
        self._next = 0.0
        """Earliest time of the next call."""
        self._again = 0.0
        """Time of the next reset; then names are added again."""
        self._idle = inf
        """Time when the connection is closed."""
        self._refused: dict[IndexedKind, float] = {}
        """Time until which names of a kind are not added, because the server refused."""
        self.wake: Callable[[], None] | None = None
        """Wakes the engine's thread, or starts it; None without an engine."""
        self.locks: Callable[[], Iterable[str]] = tuple
        """Returns the keys of locks that this process holds or waits for."""
        _all.add(self)

    def used(self, call: Call) -> None:
        """Record the names that a call has used."""
        for at in call.script.declared.indexed:
            self._note(call.keys[at])

    def note(self, *keys: str) -> None:
        """Record the names for keys, unless they were recorded recently or their kind has no index."""
        for key in keys:
            self._note(key)

    def _note(self, key: str) -> None:
        if key in self._used or len(self._noted) >= _MOST:
            return
        thing = index.kind_of(self._prefix, key)
        if thing is None or self._refused.get(thing[0], 0.0) > now():
            return
        if not self._used or len(self._used) >= _MOST:
            self._used.clear()
            self._again = now() + EVERY
        self._used[key] = None
        self._noted[thing] = None
        if self.wake is not None:
            self.wake()

    def forget(self) -> None:
        """Add each name again at its next use: the server may have lost its data."""
        self._used.clear()

    def own(self, kind: str) -> list[str]:
        """Return the names of a kind that the apps of this process, with this prefix, are about to add."""
        own_names: dict[str, None] = {}
        for each in [each for each in list(_all) if each._prefix == self._prefix]:  # noqa: SLF001 - one of us
            own_names.update({name: None for of, name in list(each._noted) if of.word == kind})  # noqa: SLF001
            if kind == LOCKS.word:
                names = (LOCKS.name(self._prefix, key) for key in each.locks())
                own_names.update({name: None for name in names if name is not None})
        return list(own_names)

    @property
    def due(self) -> float | None:
        """Return the time of the engine's next work here, on this process's clock; None if there is none."""
        at = self._idle
        if self._noted:
            at = min(at, self._next)
        if self._used:
            at = min(at, self._again)
        return None if at == inf else at

    def add(self, driver: SyncDriver, *, busy: bool) -> None:
        """Do all due work; unless the driver is `busy` with other calls, close its connection later."""
        at = now()
        if self._used and self._again <= at:
            self._used.clear()
        if self._noted and self._next <= at:
            self._add(driver)
            self._idle = now() + _IDLE
        elif self._idle <= at:
            self._idle = inf
            if not busy:
                driver.rest()

    def close(self, driver: SyncDriver) -> None:
        """Add the remaining names."""
        self.wake, self._idle = None, inf
        self.locks = tuple
        self.forget()
        if self._noted and self._next <= now() + _PAUSE:
            self._add(driver)

    def _add(self, driver: SyncDriver) -> None:
        names: dict[IndexedKind, list[str]] = {}
        for kind, name in list(self._noted):
            names.setdefault(kind, []).append(name)
        self._next = now() + _PAUSE
        for kind, some in names.items():
            try:
                driver.run(within(_PATIENCE, index.put(self._prefix, kind, some)))
            except ServerRefused as error:
                log.info("this user may not add names to the index of %s, so lists may lack them: %s", kind.word, error)
                self._refused[kind] = now() + _REFUSED
            except Exception as error:  # noqa: BLE001 - whatever it is, leases are renewed
                log.debug("names could not be added to the index of %s: %s", kind.word, error)
                self._next = now() + _TROUBLED
                return
            # a name that was recorded again meanwhile is also in the index; a refused name is dropped
            for name in some:
                self._noted.pop((kind, name), None)


_all: weakref.WeakSet[NameIndex] = weakref.WeakSet()
