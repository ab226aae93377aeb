"""The methods of `Lockwork` for objects that processes share: locks, synchronizers, queues and stocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Never

from lockwork.app.process_locks import ProcessLocks
from lockwork.config import Config
from lockwork.durations import Duration
from lockwork.errors import ConfigError
from lockwork.foreign_words import LOCK_OPTIONS, unknown_argument
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
from lockwork.protocol.index import index
from lockwork.protocol.keys import StockKeys
from lockwork.protocol.locks.overview import Overview
from lockwork.protocol.synchronizers.limiter import Algorithm, LimiterOverview
from lockwork.queues.delay_queue import DelayQueue
from lockwork.queues.queue import Queue
from lockwork.queues.stock import Stock, StockSummary, stocks
from lockwork.runtime.runtime import LockObserver, Runtime
from lockwork.synchronizers.barrier import Barrier
from lockwork.synchronizers.latch import Latch
from lockwork.synchronizers.limiter import Limiter, read_limiters
from lockwork.synchronizers.once import Once
from lockwork.tasks.registry import Registry


class SharedObjects:
    """Handles and lists of locks, synchronizers, queues, stocks and delay queues."""

    runtime: Runtime
    config: Config
    registry: Registry
    warned_stocks: set[StockKeys]
    """The stocks whose quantity on the server differs from the app's, once a warning was logged."""
    _locks: ProcessLocks

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
        **unknown: Never,
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
        if unknown:
            raise unknown_argument("lock", next(iter(unknown)), LOCK_OPTIONS)
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

        A waiter acquires the locks in the order of their names. While it waits for a lock, it holds no later lock, so
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
            patience: maximum time to wait for a server's answer; then it counts as unreachable. Default 0.5 s.
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
            on_gain: called with the grant when this candidate becomes the leader. Default None.
            on_loss: called with the grant when it stops being the leader, after `on_gain` has returned. Default None.
            tags: words shown when the election is inspected. Default none.
        """
        return Election(self.runtime, self.config, name, on_gain=on_gain, on_loss=on_loss, tags=tags)

    def fenced(self, name: str) -> Register:
        """A value on the server that only the newest holder of a lock can write: `set(value, grant)`, `get()`.

        Args:
            name: names the value.
        """
        return Register(self.runtime, self.config, name)

    def locks(self, pattern: str = "*") -> Overview:
        """All locks, read-write locks and semaphores that match: holders, waiters and every deadlock.

        `pattern` is a name with *, ? and [...]. Finds the locks of this process, locks that are held or waited for
        longer than a second, and locks whose whole name is the pattern. Reads them in bounded steps. Reports a deadlock
        only if a second read confirms it.
        """
        return self.runtime.run(self._locks.overview(pattern))

    async def alocks(self, pattern: str = "*") -> Overview:
        """Async version of `locks`."""
        return await self.runtime.arun(self._locks.overview(pattern))

    def release_all(self) -> int:
        """Release every lock that this process holds, in all threads and tasks; returns the number of locks.

        The holders continue their work, but their grants count as lost.
        """
        return self._locks.release_all()

    async def arelease_all(self) -> int:
        """Async version of `release_all`."""
        return await self._locks.arelease_all()

    def observe_locks(self, observer: LockObserver) -> None:
        """Call `observer` when an acquire of this app calls the server, to measure how long it waits and holds.

        This covers locks of all kinds and semaphores, but not elections, nor an acquire that sends nothing: re-entering
        a lock, or acquiring a sticky lock that this process has. Raises ConfigError if there is already an observer.
        """
        self._locks.observe(observer)

    def latch(self, name: str, count: int, *, ttl: Duration = "1d") -> Latch:
        """A latch that opens when it has been counted down from `count` to zero, and then stays open.

        Args:
            name: names the latch.
            count: the initial count; the first call of any process that uses the latch sets it.
            ttl: the latch is deleted this long after its last change. Default "1d".
        """
        return Latch(self.runtime, self.config, name, count, ttl)

    def barrier(self, name: str, parties: int) -> Barrier:
        """A reusable barrier: `parties` callers wait for each other.

        Args:
            name: names the barrier.
            parties: number of callers of `wait` that open it. A party whose process died counts for 15 s at most.
        """
        return Barrier(self.runtime, self.config, name, parties)

    def limiter(
        self,
        name: str,
        rate: str | Sequence[str],
        *,
        burst: int | None = None,
        algorithm: Algorithm = "bucket",
    ) -> Limiter:
        """A rate limit for all processes together.

        As a decorator, the name may contain arguments of the function: `@lw.limiter("user:{user_id}", "5/m")`.

        Args:
            name: names the limiter.
            rate: units per time, such as "100/s", "5/m" or "10/30s"; or several, `["10/s", "1000/h"]`, which all hold.
            burst: units that a "bucket" allows at once; None (default): the units of the rate.
            algorithm: "bucket" (default) refills evenly. "window" never allows more than the rate's units in any
                period, and remembers each unit for one period.
        """
        return Limiter(self.runtime, self.config, name, rate, burst, algorithm)

    def limiters(self, pattern: str = "*", *, limit: int = 200) -> LimiterOverview:
        """List up to `limit` recently used limiters that match, with their rates, free units and waiting callers.

        `pattern` is a name with *, ? and [...]. It searches the 10,000 limiters that were used last.
        """
        return self.runtime.run(read_limiters(self.config.prefix, pattern, limit))

    async def alimiters(self, pattern: str = "*", *, limit: int = 200) -> LimiterOverview:
        """Async version of `limiters`."""
        return await self.runtime.arun(read_limiters(self.config.prefix, pattern, limit))

    def once(
        self, name: str, every: Duration = "1d", *, wait: Duration | None = None, again_if_lost: bool = False
    ) -> Once:
        """Run a function at most once per period in all processes; other callers get the result or failure of that run.

        As a decorator, the name may contain arguments of the function: `@lw.once("report:{day}", every="1d")`.

        Args:
            name: names the function that runs once.
            every: the period, which begins when the run begins. Default "1d".
            wait: maximum time to wait for a run in progress. None (default): until it ends. 0: do not wait.
            again_if_lost: run again in the same period if the process of the first run died. Default False.
        """
        return Once(self.runtime, self.config, name, every, wait=wait, again_if_lost=again_if_lost)

    def queue(self, name: str = "default") -> Queue:
        """The handle of a queue: its status, workers and dead jobs; pause, limit, drain or clear it; its locks.

        Args:
            name: names the queue. Default "default".
        """
        return Queue(self.runtime, self.config, name, self.registry.context.errors)

    def queues(self) -> list[str]:
        """The names of all queues and partitions that ever had a job on this server, or that a worker serves."""
        return self.runtime.run(index.queues(self.config.prefix))

    async def aqueues(self) -> list[str]:
        """Async version of `queues`."""
        return await self.runtime.arun(index.queues(self.config.prefix))

    def stock(self, name: str, quantity: int, *, limit: int | None = None, queue: str = "default") -> Stock:
        """A stock of units that buyers reserve, confirm or release; it never oversells.

        Args:
            name: names the stock.
            quantity: units for sale when the stock is first used. Another number later logs a WARNING and changes
                nothing: use `restock` or `withdraw`.
            limit: units that one buyer may have; None (default): no limit.
            queue: the queue of the jobs that are enqueued together with its reservations. Default "default".
        """
        announcing = self.registry.context.announcing
        return Stock(
            self.runtime, self.config, announcing, name, quantity, limit=limit, queue=queue, warned=self.warned_stocks
        )

    def stocks(self, *, minutes: int = 0) -> list[StockSummary]:
        """List the stocks on this server and their units by place, read one after the other, without changing them.

        With `minutes`, up to 60, also return the units that the first 100 stocks reserved and sold in each of the last
        minutes.
        """
        return self.runtime.run(stocks(self.config.prefix, minutes))

    async def astocks(self, *, minutes: int = 0) -> list[StockSummary]:
        """Async version of `stocks`."""
        return await self.runtime.arun(stocks(self.config.prefix, minutes))

    def delay_queue(self, name: str) -> DelayQueue:
        """A queue of unique ids in order of due time; one caller takes each id.

        Args:
            name: names the delay queue.
        """
        return DelayQueue(self.runtime, self.config.prefix, name)
