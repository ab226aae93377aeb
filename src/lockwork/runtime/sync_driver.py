"""The sync driver: runs a protocol on the caller's thread."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Generator
from inspect import GEN_CLOSED, getgeneratorstate
from typing import Any, TypeVar

from lockwork.errors import BlockingCallError, LockworkError
from lockwork.protocol.effects import Call, Clock, Effect, Park, Protocol, Shards
from lockwork.runtime.clock import REPLICAS, limit, now
from lockwork.runtime.cluster import ClusterEndpoint
from lockwork.runtime.endpoint import SHORTEST, TIMEOUT, YOUNG, Endpoint, Identity
from lockwork.runtime.reconnect import dial
from lockwork.runtime.replies import Demoted, Failover, Moved, NoScript, Retry, acknowledged
from lockwork.runtime.resp import ASKING, pack_wait
from lockwork.runtime.sync_connection import Wire
from lockwork.runtime.trying import Tries
from lockwork.runtime.wakeups import WakeupSource

E = TypeVar("E")
T = TypeVar("T")


def drive(protocol: Generator[E, Any, T], perform: Callable[[E], Any]) -> T:
    """Run `protocol` to its end on this thread; whatever interrupts it, its clean-up is done first."""
    step: Callable[[Any], E] = protocol.send
    value: Any = None
    while True:
        try:
            # The inner loop's jump back is inside of the `try`: a signal may raise there, too.
            while True:
                value = perform(step(value))
                step = protocol.send
        except StopIteration as done:
            result: T = done.value
            return result
        except BaseException as error:
            if getgeneratorstate(protocol) == GEN_CLOSED:
                raise
            step, value = protocol.throw, error


def no_running_loop() -> None:
    """Raise BlockingCallError on the thread of a running event loop."""
    if asyncio._get_running_loop() is not None:  # noqa: SLF001 - documented, and much cheaper than an exception
        raise BlockingCallError(
            "this call blocks, and an event loop is running on this thread: await its a-prefixed twin instead"
        )


class _Pool:
    """Connections to one server, kept for reuse: as many as there are threads calling."""

    def __init__(self, endpoint: Endpoint, *, allow_eviction: bool) -> None:
        self._endpoint = endpoint
        self._allow_eviction = allow_eviction
        self._free: deque[Wire] = deque()
        self._abandoned: dict[Identity, None] = {}
        """Where a request may still be under way that was given up: every later call ends these first."""
        self._busy: set[Wire] = set()
        endpoint.observers.add(self._moved)

    def once(self, call: Call, seconds: float, *, whole: bool, asking: bool) -> Any:
        """Send a call once; raises Retry, NoScript, or a LockworkError. `asking`: its slot is on its way here."""
        wire = self._take(seconds)
        self._busy.add(wire)
        try:
            wire.limit(seconds)
            if self._abandoned:
                self._end_abandoned(wire)
            if asking:
                wire.request(ASKING)
            reply = wire.run(call, whole=whole)
            if not call.replicas:
                return reply
            return reply, acknowledged(wire.request(pack_wait(call.replicas, REPLICAS)), self._endpoint.shown)
        except (LockworkError, NoScript, Moved):
            raise
        except Failover as error:
            self._renounce(wire, error)
            raise
        except BaseException as error:
            if not isinstance(error, Retry):
                # interrupted between question and answer: the next caller must not read this reply
                wire.close()
            if wire.identity is not None and not wire.connected:
                self._abandoned[wire.identity] = None
            raise
        finally:
            self._busy.discard(wire)
            if wire.connected:
                self._free.append(wire)

    def _moved(self) -> None:
        """Let nobody wait for a server that hangs, once another has taken its place."""
        for wire in list(self._busy):
            wire.interrupt()

    def _end_abandoned(self, wire: Wire) -> None:
        for old in list(self._abandoned):
            wire.end(old)
            self._abandoned.pop(old, None)

    def _renounce(self, wire: Wire, why: Failover) -> None:
        """Close the connection, because another server may have its address by now; not again and again."""
        if isinstance(why, Demoted):
            self._endpoint.demoted(wire.era)
            wire.close()
        elif now() - wire.since > YOUNG:
            wire.close()

    def _take(self, seconds: float) -> Wire:
        while True:
            try:
                wire = self._free.pop()
            except IndexError:
                # every connection is checked: after a failover it may lead to another server
                return self._dial(seconds)
            if wire.era == self._endpoint.era:
                return wire
            wire.close()

    def _dial(self, seconds: float) -> Wire:
        try:
            return dial(self._endpoint, seconds, allow_eviction=self._allow_eviction)
        except Retry as error:
            error.sent = False
            raise

    def close(self) -> None:
        """Close the connections that are not in use; those in use are closed after their call."""
        self._endpoint.observers.discard(self._moved)
        while self._free:
            self._free.pop().close()


class SyncDriver:
    """Performs effects with blocking calls."""

    def __init__(self, endpoint: Endpoint, listener: WakeupSource, *, patience: float, allow_eviction: bool) -> None:
        self._endpoint = endpoint
        self._cluster = endpoint if isinstance(endpoint, ClusterEndpoint) else None
        self._listener = listener
        self._patience = patience
        self._allow_eviction = allow_eviction
        self._pool = _Pool(endpoint, allow_eviction=allow_eviction)
        """Of a Cluster, nobody uses this one."""
        self._pools: dict[Endpoint, _Pool] = {}
        """Of a Cluster, by node."""
        self.timeout: float | None = None
        """Seconds that one call may take at the most, all its tries together, when that is less than usual."""

    def run(self, protocol: Protocol[T]) -> T:
        """Run `protocol` to its end; raises BlockingCallError on the thread of a running event loop."""
        no_running_loop()
        return drive(protocol, self.perform)

    def slot(self, key: str) -> int:
        """Return the same number for keys that one call may have."""
        return self._endpoint.slot(key)

    def perform(self, effect: Effect) -> Any:
        """Perform one effect."""
        if type(effect) is Call:
            return self._call(effect)
        if type(effect) is Park:
            return self._listener.wait(effect.ticket, effect.until, effect.key)
        if type(effect) is Shards:
            return self._shards()
        assert type(effect) is Clock
        return now()

    def _call(self, call: Call) -> Any:
        began, tries, whole, moved = now(), None, False, None
        patience = self._patience if call.patience is None else min(call.patience, self._patience)
        seconds = limit(call, patience) if self.timeout is None else self.timeout
        left = seconds
        while True:
            pool, sent = self._pool, call
            try:
                if self._cluster is not None:
                    pool, sent = self._routed(self._cluster, call, moved)
                return pool.once(sent, min(TIMEOUT, left), whole=whole, asking=moved is not None and moved.once)
            except NoScript:
                whole = True
            except Retry as error:
                moved = self._endpoint.failed(error)
                tries = tries or Tries(self._endpoint.shown, began, patience)
                time.sleep(tries.pause(error))
                tries.again(error)
                call = call.again()
            left = max(began + seconds - now(), SHORTEST)

    def _routed(self, cluster: ClusterEndpoint, call: Call, moved: Moved | None) -> tuple[_Pool, Call]:
        """Return the connections to the node for a call, and the call as it is sent there."""
        if cluster.stale:
            cluster.refresh()
        node = cluster.route(call) if moved is None else cluster.moved_slot(moved)
        pool = self._pools.get(node)
        if pool is None:
            pool = self._pools.setdefault(node, _Pool(node, allow_eviction=self._allow_eviction))
        return pool, cluster.prepare(call)

    def _shards(self) -> int:
        if self._cluster is not None and self._cluster.stale:
            self._cluster.refresh()
        return self._endpoint.shards()

    def close(self) -> None:
        """Close the connections that are not in use; those in use are closed after their call."""
        for pool in (self._pool, *list(self._pools.values())):
            pool.close()
