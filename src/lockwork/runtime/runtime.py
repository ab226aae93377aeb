"""The runtime of one Lockwork object: its server, its engine, and drivers for threads and asyncio."""

from __future__ import annotations

import atexit
import contextlib
import os
import socket
import weakref
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from typing import Protocol as Interface

from lockwork.errors import LockworkError
from lockwork.hashes import random_bytes
from lockwork.lazy import asyncio
from lockwork.owners import Owner
from lockwork.payloads.payloads import Payloads
from lockwork.protocol import keys
from lockwork.protocol.effects import Protocol
from lockwork.protocol.locks import grants
from lockwork.protocol.locks.leases import Lease
from lockwork.protocol.locks.overview import process_name
from lockwork.runtime.driver import Action
from lockwork.runtime.lock_counts import LockCounts
from lockwork.runtime.name_index import NameIndex
from lockwork.runtime.reentry import entered_once, new_lock
from lockwork.runtime.replacement import replacement
from lockwork.runtime.sticky_cache import StickyCache

if TYPE_CHECKING:  # they import redis-py, which takes longer than the rest of Lockwork: at the first use of a server
    from lockwork.runtime.async_driver import AsyncDriver
    from lockwork.runtime.endpoint import Endpoint
    from lockwork.runtime.engine import Engine
    from lockwork.runtime.sync_driver import SyncDriver

T = TypeVar("T")
Opened: TypeAlias = "tuple[Endpoint, Callable[[], None]]"


class LockObservation(Interface):
    """One acquire that calls the server, from its first call; its methods must not raise."""

    def granted(self, fence: int, /) -> Callable[[bool], None]:
        """Return a function to call at the end of the hold, from any thread, with True if its lease was lost."""
        ...

    def failed(self, error: BaseException, /) -> None:
        """Record that the lock was not granted: LockTimeout, or any other error."""
        ...


LockObserver = Callable[[str, str], LockObservation]
"""Called at the start of an acquire with the kind of lock, such as "semaphore", and its name."""

_living: weakref.WeakSet[Runtime] = weakref.WeakSet()


def living() -> list[Runtime]:
    """Return the runtimes of this process."""
    return list(_living)


class Runtime:
    """Opens the server at first use; `opener` returns its endpoint and a function to call at the end."""

    def __init__(
        self,
        opener: Callable[[], Opened],
        *,
        prefix: str,
        patience: float,
        allow_eviction: bool,
        window_ms: int = 600_000,
        payloads: Payloads | None = None,
    ) -> None:
        self._opener = opener
        self.prefix: str = prefix
        self.window_ms: int = window_ms
        """Minimum retention of results in ms."""
        self.payloads: Payloads | None = payloads
        """Encrypts or signs what jobs store; None without a codec."""
        self._patience = patience
        self._allow_eviction = allow_eviction
        self._opened: Opened | None = None
        self.lock_observer: LockObserver | None = None
        self._reset()
        _living.add(self)

    def _reset(self) -> None:
        self.process: str = process_name(socket.gethostname(), os.getpid(), random_bytes(5).hex())
        self.channel: str = keys.channel(self.prefix, self.process)
        self.holds: dict[tuple[str, Owner], Any] = {}
        """Holds of this process by key and owner: re-entering needs no call."""
        self.live: dict[Any, None] = {}
        """Holds that have not ended. The thread that pops a hold, in one step, ends it."""
        self.lost: dict[Any, None] = {}
        """Holds with lost leases that may not have ended."""
        self.sticky_cache: StickyCache = StickyCache()
        self.lock_counts: LockCounts = LockCounts(self.prefix, self.process)
        self.names: NameIndex = NameIndex(self.prefix)
        self._opening = new_lock()
        self._engine: Engine | None = None
        self._sync: SyncDriver | None = None
        self._loops: dict[asyncio.AbstractEventLoop, AsyncDriver] = {}
        self._last: tuple[asyncio.AbstractEventLoop, AsyncDriver] | None = None

    @property
    def engine(self) -> Engine:
        """Engine of this process."""
        if self._engine is None:
            self._open()
        assert self._engine is not None
        return self._engine

    @property
    def subscribed(self) -> bool:
        """True while the server has confirmed the subscription of this process; always False on a Cluster."""
        return self._engine is not None and self._engine.subscribed

    @property
    def active(self) -> bool:
        """True if an engine may renew leases: False before the first use, and after `close`."""
        return self._engine is not None

    @property
    def replaced(self) -> bool:
        """True if a test runs protocols in place of the drivers."""
        return replacement.runner is not None

    @property
    def channels(self) -> str:
        """Prefix of the channels of all processes."""
        return self.channel.removesuffix(self.process)

    @property
    def server(self) -> str:
        """Describe the server for people, without the password; opens it."""
        return self.endpoint.described

    @property
    def opened(self) -> str:
        """Describe the server without opening it; empty if none is open."""
        return self._opened[0].described if self._opened is not None else ""

    @property
    def embedded(self) -> str:
        """Describe the opened server if it is the embedded one; otherwise empty."""
        return self._opened[0].described if self._opened is not None and self._opened[0].embedded else ""

    @property
    def found(self) -> str:
        """Describe the reached server, such as its number of shards; may be empty."""
        return self._opened[0].found if self._opened is not None else ""

    @property
    def address(self) -> tuple[str, int | None] | None:
        """Host and port of the server, or the path of its socket; None before it is opened, and for a Cluster."""
        endpoint = None if self._opened is None else self._endpoint()
        if endpoint is None or endpoint.cluster:
            return None
        options = endpoint.options
        if "path" in options:
            return str(options["path"]), None
        return str(options.get("host", "localhost")), int(options.get("port", 6379))

    def shares_server(self, other: Runtime) -> bool:
        """Return True if the addresses of both lead to the same server, database and user."""
        return self is other or self._place() == other._place()

    def _place(self) -> tuple[object, ...]:
        endpoint = self.endpoint
        return endpoint.described, endpoint.options.get("db") or 0, endpoint.options.get("username")

    @property
    def clustered(self) -> bool:
        """True if the server is a Cluster; False before its first use."""
        return self._opened is not None and self._opened[0].cluster

    @property
    def endpoint(self) -> Endpoint:
        """The opened endpoint of the server."""
        if self._opened is None:
            self._open()
        return self._endpoint()

    def run(self, protocol: Protocol[T]) -> T:
        """Run a protocol on this thread."""
        if replacement.runner is not None:
            return replacement.runner.run(self, protocol)
        driver = self._sync
        if driver is None:
            driver = self._open()
        return driver.run(protocol)

    def run_on_server(self, protocol: Protocol[T]) -> T:
        """Run a protocol on this thread, whatever tests have put in place of the server."""
        driver = self._sync
        if driver is None:
            driver = self._open()
        return driver.run(protocol)

    def arun(self, protocol: Protocol[T]) -> Coroutine[Any, Any, T]:
        """Run a protocol in this asyncio task."""
        if replacement.runner is not None:
            return replacement.runner.arun(self, protocol)
        return self.arun_on_server(protocol)

    def arun_on_server(self, protocol: Protocol[T]) -> Coroutine[Any, Any, T]:
        """Async version of `run_on_server`."""
        last = self._last
        if last is not None and last[0] is asyncio.get_running_loop():
            return last[1].run(protocol)
        return self._first(protocol)

    def action(self, protocol: Callable[[], Protocol[Any]]) -> Action:
        """Run a protocol as one action of a control flow."""
        return Action(lambda: self.run(protocol()), lambda: self.arun(protocol()))

    async def _first(self, protocol: Protocol[T]) -> T:
        return await (await self.driver()).run(protocol)

    async def driver(self) -> AsyncDriver:
        """Return the asyncio driver of the running loop."""
        from lockwork.runtime.async_driver import AsyncDriver  # noqa: PLC0415 - see above

        loop = asyncio.get_running_loop()
        if self._sync is None:
            await asyncio.to_thread(self._open)
        driver = self._loops.get(loop)
        if driver is None:
            self._forget_closed()
            driver = self._loops[loop] = AsyncDriver(
                self._endpoint(), self.engine, patience=self._patience, allow_eviction=self._allow_eviction
            )
        self._last = loop, driver
        return driver

    def _forget_closed(self) -> None:
        """Abandon the drivers of closed loops. Other threads may do this at the same time, so it iterates over a copy.

        The thread that pops a driver abandons it.
        """
        for loop in [each for each in list(self._loops) if each.is_closed()]:
            driver = self._loops.pop(loop, None)
            if driver is not None:
                driver.abandon()

    def return_idle(self) -> None:
        """Release the idle sticky locks of this process."""
        for lease in self.sticky_cache.drain():
            self.run(self._released(lease))

    async def areturn_idle(self) -> None:
        """Async version of `return_idle`."""
        for lease in self.sticky_cache.drain():
            await self.arun(self._released(lease))

    def _released(self, lease: Lease) -> Protocol[bool]:
        self.engine.drop(lease)
        renewal = lease.renewal
        return grants.release(renewal.key, renewal.owner, renewal.fence, patience=0.5)

    def close(self) -> None:
        """Close all connections and end the engine; a later call opens them again."""
        with contextlib.suppress(LockworkError):  # no server, or a loop's thread: the leases expire
            self.return_idle()
        with entered_once(self._opening):
            engine, self._engine, sync, self._sync = self._engine, None, self._sync, None
            opened, self._opened = self._opened, None
            loops, self._loops, self._last = self._loops, {}, None
        if engine is not None:
            engine.close()
        if sync is not None:
            sync.close()
        for driver in loops.values():
            driver.abandon()
        if opened is not None:
            opened[1]()

    async def aclose(self) -> None:
        """Async version of `close`; the running loop's connection is closed in order."""
        with contextlib.suppress(LockworkError):
            await self.areturn_idle()
        driver = self._loops.pop(asyncio.get_running_loop(), None)
        if driver is not None:
            await driver.aclose()
        self.close()

    def _open(self) -> SyncDriver:
        from lockwork.runtime.engine import Engine  # noqa: PLC0415 - see above
        from lockwork.runtime.sync_driver import SyncDriver  # noqa: PLC0415 - see above

        if replacement.runner is not None:
            replacement.runner.check_open()
        with entered_once(self._opening):
            if self._sync is None:
                if self._opened is None:
                    self._opened = (replacement.opener or self._opener)()
                endpoint = self._opened[0]
                self._engine = Engine(
                    endpoint,
                    self.channel,
                    self.sticky_cache,
                    self.lock_counts,
                    self.names,
                    allow_eviction=self._allow_eviction,
                )
                self._sync = SyncDriver(
                    endpoint, self._engine, patience=self._patience, allow_eviction=self._allow_eviction
                )
            return self._sync

    def _endpoint(self) -> Endpoint:
        assert self._opened is not None
        return self._opened[0]

    def start_over(self) -> None:
        """Close, and forget all locks and the identity of this process; for tests, whose server lost its data."""
        self.close()
        for hold in list(self.live):
            hold.lease = None
        self._reset()

    def after_fork(self) -> None:
        """Forget the parent's connections, threads and identity in a forked child, so that the two share none."""
        for hold in list(self.live):
            hold.lease = None  # the lease belongs to the parent, so for the child it is over
        # The old objects stay referenced: closing a loop's transport here would disturb the parent's poller.
        self._inherited = (self._engine, self._sync, self._loops)
        self._reset()
        if self._opened is not None:
            self._opened[0].after_fork()


def _after_fork() -> None:
    for runtime in list(_living):
        runtime.after_fork()


def _at_exit() -> None:
    for runtime in list(_living):
        with contextlib.suppress(Exception):
            runtime.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
