"""The methods of `Lockwork` for locks of every kind."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from lockwork.app.state import AppState
from lockwork.durations import Duration
from lockwork.errors import ConfigError, LockLost, NotHeld
from lockwork.locks.candidacy import Callback
from lockwork.locks.election import Election
from lockwork.locks.fenced_register import Register
from lockwork.locks.grant import OnLost
from lockwork.locks.lock import Lock
from lockwork.locks.multilock import MultiLock
from lockwork.locks.quorum import Quorum, QuorumApp
from lockwork.locks.rwlock import RWLock
from lockwork.locks.semaphore import Semaphore
from lockwork.locks.sticky import StickyLock
from lockwork.protocol.keys import checked
from lockwork.protocol.locks import overview as protocol
from lockwork.protocol.locks.overview import Overview
from lockwork.runtime.runtime import LockObserver
from lockwork.runtime.sync_driver import no_running_loop


class LockMethods(AppState):
    """Handles of locks of every kind, and an overview of their holders."""

    def observe_locks(self, observer: LockObserver) -> None:
        """Call `observer` when an acquire of this app calls the server, to measure how long it waits and holds.

        This covers locks of all kinds and semaphores, but not elections, nor an acquire that sends nothing: re-entering
        a lock, or acquiring a sticky lock that this process has. Raises ConfigError if there is already an observer.
        """
        if self.runtime.lock_observer is not None:
            raise ConfigError("the locks of this app already have an observer")
        self.runtime.lock_observer = observer

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
        """A re-entrant, fair, fenced lock.

        As a decorator, the name may contain arguments of the function: `@lw.lock("order:{order_id}")`.

        Args:
            name: names the lock among all processes that use this server and prefix.
            wait: maximum time to wait before LockTimeout. None (default): no limit. 0: try once.
            lease: None (default): Lockwork renews the lock while this process lives. A duration: the lock ends after
                that time.
            on_lost: called with the grant, on another thread, when the lease ends while the lock is held. Default None.
            at_least: the lock stays taken for at least this long after it was granted. Default None.
            replicas: replicas that must confirm a grant before it is valid, else NotReplicated. Default 0.
            sticky: keep the lock in this process after its release until another process requests it, so that acquiring
                it again costs no call; such grants share a fence. Excludes `lease` and `at_least`. Default False.
            tags: words shown when the lock is inspected. Default none.

        Raises ConfigError for an invalid option.
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
            raise ConfigError("a sticky lock is renewed while this process has it, so it cannot have lease or at_least")
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
        """A semaphore: at most `permits` units at a time in all processes together, served in order of arrival.

        Permits of a dead holder return when its lease ends.

        Args:
            name: names the semaphore.
            permits: units that can be held at once. The most recent value of any process applies.
            units: units that each acquire takes. Default 1.
            wait: maximum time to wait before LockTimeout. None (default): no limit. 0: try once.
            lease: None (default): renewed while this process lives. A duration: the grant ends after that time.
            on_lost: called with the grant, on another thread, when the lease ends while the lock is held. Default None.
            tags: words shown when the semaphore is inspected. Default none.
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
        """A read-write lock: many readers or one writer, served in order of arrival; `read()` and `write()` give its
        sides.

        Args:
            name: names the lock.
            wait: maximum time to wait before LockTimeout. None (default): no limit. 0: try once.
            lease: None (default): renewed while this process lives. A duration: the grant ends after that time.
            on_lost: called with the grant, on another thread, when the lease ends while the lock is held. Default None.
            tags: words shown when the lock is inspected. Default none.
        """
        return RWLock(self.runtime, self.config, name, wait=wait, lease=lease, on_lost=on_lost, tags=tags)

    def multilock(
        self,
        *names: str,
        wait: Duration | None = None,
        lease: Duration | None = None,
        on_lost: OnLost | None = None,
        tags: Sequence[str] = (),
    ) -> MultiLock:
        """Several locks as one, the same locks that `lock` returns: all are granted, or none.

        A waiter acquires the locks in the order of their names and holds none after the one that it waits for, so
        multilocks never deadlock with each other. Raises ConfigError for a duplicate name.

        Args:
            names: the locks, in any order.
            wait: maximum time to wait before LockTimeout. None (default): no limit. 0: try once.
            lease: None (default): renewed while this process lives. A duration: the locks end after that time.
            on_lost: called with the grant, on another thread, when one of the leases ends. Default None.
            tags: words shown when the locks are inspected. Default none.
        """
        return MultiLock(self.runtime, self.config, names, wait=wait, lease=lease, on_lost=on_lost, tags=tags)

    def quorum(self, servers: Sequence[QuorumApp | str], *, patience: Duration = 0.5) -> Quorum:
        """Locks on a majority of independent servers. Close it, or use it in a `with`.

        Args:
            servers: Lockwork objects or URLs; this server takes part only if it is listed.
            patience: seconds after which a server that does not answer counts as unreachable. Default 0.5.
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
        """One leader among all candidates under this name, while their `with` or `async with` runs.

        Args:
            name: names the election.
            on_gain: called when this candidate becomes the leader. Default None.
            on_loss: called when it stops being the leader. Default None.
            tags: words shown when the election is inspected. Default none.
        """
        return Election(self.runtime, self.config, name, on_gain=on_gain, on_loss=on_loss, tags=tags)

    def release_all(self) -> int:
        """Release every lock that this process holds, in all threads and tasks; returns the number of locks.

        The holders continue their work, but their grants count as lost.
        """
        no_running_loop()
        released = 0
        for hold in list(self.runtime.holds.values()):
            with contextlib.suppress(NotHeld, LockLost):
                hold.release()
                released += 1
        self.runtime.return_idle()
        return released

    async def arelease_all(self) -> int:
        """Async version of `release_all`."""
        released = 0
        for hold in list(self.runtime.holds.values()):
            with contextlib.suppress(NotHeld, LockLost):
                await hold.arelease()
                released += 1
        await self.runtime.areturn_idle()
        return released

    def locks(self, pattern: str = "*") -> Overview:
        """All locks, read-write locks and semaphores that match: holders, waiters and every deadlock.

        `pattern` is a name with *, ? and [...]. Reads one lock after the other, in bounded steps. Reports a deadlock
        only if a second read confirms it.
        """
        return self.runtime.run(protocol.look(self.config.prefix, checked(pattern, "a pattern of locks' names")))

    async def alocks(self, pattern: str = "*") -> Overview:
        """Async version of `locks`."""
        return await self.runtime.arun(protocol.look(self.config.prefix, checked(pattern, "a pattern of locks' names")))

    def fenced(self, name: str) -> Register:
        """A value on the server that only the newest holder of a lock can write: `set(value, grant)`, `get()`.

        Args:
            name: names the value.
        """
        return Register(self.runtime, self.config, name)
