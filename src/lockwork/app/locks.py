"""The methods of Lockwork that hand out locks."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from lockwork.config import Config
from lockwork.durations import Duration
from lockwork.errors import ConfigError, LockLost, NotHeld
from lockwork.locks.candidacy import Callback
from lockwork.locks.election import Election
from lockwork.locks.fenced_register import Register
from lockwork.locks.grant import OnLost
from lockwork.locks.lock import Lock
from lockwork.locks.multilock import MultiLock
from lockwork.locks.quorum import App, Quorum
from lockwork.locks.rwlock import RWLock
from lockwork.locks.semaphore import Semaphore
from lockwork.locks.sticky import StickyLock
from lockwork.protocol.keys import checked
from lockwork.protocol.locks import overview as protocol
from lockwork.protocol.locks.overview import Overview
from lockwork.runtime.runtime import Runtime
from lockwork.runtime.sync_driver import no_running_loop


class Fencing:
    """Part of Lockwork: stores that check fences."""

    runtime: Runtime
    config: Config

    def fenced(self, name: str) -> Register:
        """A value on the server that only the newest holder of a lock can write: `set(value, grant)`, `get()`."""
        return Register(self.runtime, self.config, name)


class Overviews:
    """Part of Lockwork: looking at everything that is held or waited for."""

    runtime: Runtime
    config: Config

    def locks(self, pattern: str = "*") -> Overview:
        """All locks, read-write locks and semaphores that match: holders, waiting lines, and every deadlock.

        `pattern` is a name with *, ? and [...]. The locks are read one after the other, in bounded steps; a deadlock is
        reported only when a second look has confirmed it.
        """
        return self.runtime.run(protocol.look(self.config.prefix, _pattern(pattern)))

    async def alocks(self, pattern: str = "*") -> Overview:
        """Async version of `locks`."""
        return await self.runtime.arun(protocol.look(self.config.prefix, _pattern(pattern)))


def _pattern(pattern: str) -> str:
    return checked(pattern, "a pattern of locks' names")


class Locks(Overviews):
    """Part of Lockwork: everything that is acquired and released."""

    runtime: Runtime
    config: Config

    def lock(
        self,
        name: str,
        *,
        wait: Duration | None = None,
        lease: Duration | None = None,
        on_lost: OnLost | None = None,
        at_least: Duration | None = None,
        replicas: int = 0,
        sticky: bool = False,
        tags: Sequence[str] = (),
    ) -> Lock:
        """A re-entrant, fair, fenced lock; `wait` is how long to stand in line (None: until it comes, 0: not at all).

        Without `lease` it is renewed for as long as this process lives; with one it ends after that time.
        `on_lost(grant)` is called from another thread when the lease ends under its holder. Released earlier than
        `at_least` after it was granted, the lock stays taken until then. `replicas` must have a grant before it counts
        (NotReplicated). `sticky` keeps the lock in this process after its release until somebody else asks for it, so
        that taking it again costs nothing; such grants share a fence. `tags` are shown when the lock is inspected.
        As a decorator, the name may be made of the function's arguments: `@lw.lock("order:{order_id}")`.
        """
        if not sticky:
            return Lock(
                self.runtime,
                self.config,
                name,
                wait=wait,
                lease=lease,
                on_lost=on_lost,
                tags=tags,
                at_least=at_least,
                replicas=replicas,
            )
        if lease is not None or at_least is not None:
            raise ConfigError("a sticky lock is renewed while this process has it: it takes neither lease nor at_least")
        return StickyLock(
            self.runtime, self.config, name, wait=wait, lease=None, on_lost=on_lost, tags=tags, replicas=replicas
        )

    def semaphore(
        self,
        name: str,
        permits: int,
        *,
        units: int = 1,
        wait: Duration | None = None,
        lease: Duration | None = None,
        on_lost: OnLost | None = None,
        tags: Sequence[str] = (),
    ) -> Semaphore:
        """At most `permits` at a time, in all processes together, served in the order they came; each takes `units`.

        Permits of a holder that died come back with the end of its lease. The newest `permits` given anywhere counts.
        """
        return Semaphore(
            self.runtime, self.config, name, permits, units=units, wait=wait, lease=lease, on_lost=on_lost, tags=tags
        )

    def rwlock(
        self,
        name: str,
        *,
        wait: Duration | None = None,
        lease: Duration | None = None,
        on_lost: OnLost | None = None,
        tags: Sequence[str] = (),
    ) -> RWLock:
        """Many readers or one writer: `read()` and `write()` are acquired like locks. Served in the order they came."""
        return RWLock(self.runtime, self.config, name, wait=wait, lease=lease, on_lost=on_lost, tags=tags)

    def multilock(
        self,
        *names: str,
        wait: Duration | None = None,
        lease: Duration | None = None,
        on_lost: OnLost | None = None,
        tags: Sequence[str] = (),
    ) -> MultiLock:
        """Several locks as one, the same that `lock` gives: all are granted, or none.

        Who waits collects them in the order of their names, whatever order it gave, and has nothing of what comes after
        the one it waits for: so multilocks never wait for each other in a circle. Raises ConfigError for a name given
        twice.
        """
        return MultiLock(self.runtime, self.config, names, wait=wait, lease=lease, on_lost=on_lost, tags=tags)

    def quorum(self, servers: Sequence[App | str], *, patience: Duration = 0.5) -> Quorum:
        """Locks on a majority of these independent servers, Lockwork objects or URLs; this one only if it is listed.

        A server that does not answer within `patience` counts as away. Close it, or use it in a `with`.
        """
        return Quorum(servers, patience=patience)

    def election(
        self,
        name: str,
        *,
        on_gain: Callback | None = None,
        on_loss: Callback | None = None,
        tags: Sequence[str] = (),
    ) -> Election:
        """One leader among all that campaign under this name, while their `with` or `async with` runs."""
        return Election(self.runtime, self.config, name, on_gain=on_gain, on_loss=on_loss, tags=tags)

    def release_all(self) -> int:
        """Release every lock that this process holds, whichever thread or task took it; returns how many.

        What its holders were doing goes on: their grants count as lost.
        """
        no_running_loop()
        released = 0
        for grant in list(self.runtime.grants.values()):
            with contextlib.suppress(NotHeld, LockLost):
                grant.release()
                released += 1
        self.runtime.give_back_kept()
        return released

    async def arelease_all(self) -> int:
        """Async version of `release_all`."""
        released = 0
        for grant in list(self.runtime.grants.values()):
            with contextlib.suppress(NotHeld, LockLost):
                await grant.arelease()
                released += 1
        await self.runtime.agive_back_kept()
        return released
