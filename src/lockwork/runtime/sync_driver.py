"""The sync driver: runs a protocol on the caller's thread."""

from __future__ import annotations

import asyncio
import selectors
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from inspect import GEN_CLOSED, getgeneratorstate
from typing import Any, TypeVar

from lockwork.errors import BlockingCallError, LockworkError
from lockwork.protocol.effects import Call, Calls, Clock, Effect, Park, Protocol, Shards
from lockwork.runtime.clock import limit, now
from lockwork.runtime.cluster import ClusterEndpoint
from lockwork.runtime.endpoint import SHORTEST, TIMEOUT, Endpoint
from lockwork.runtime.replies import Moved, NoScript, Retry, gone
from lockwork.runtime.sync_connection import Wire
from lockwork.runtime.sync_pool import Sending, WirePool
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
            "this call blocks, and an event loop is running on this thread: "
            "await the async version, whose name begins with 'a', instead"
        )


class SyncDriver:
    """Performs effects with blocking calls."""

    def __init__(self, endpoint: Endpoint, listener: WakeupSource, *, patience: float, allow_eviction: bool) -> None:
        self._endpoint = endpoint
        self._cluster = endpoint if isinstance(endpoint, ClusterEndpoint) else None
        self._listener = listener
        self._patience = patience
        self._allow_eviction = allow_eviction
        self._pool = WirePool(endpoint, allow_eviction=allow_eviction)
        """Of a Cluster, nobody uses this one."""
        self._pools: dict[Endpoint, WirePool] = {}
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

    def server(self, key: str) -> object:
        """Return something for the server that has a key, as far as is known."""
        return self._cluster.owner(self._cluster.slot(key)) if self._cluster is not None else None

    @property
    def clustered(self) -> bool:
        """Whether calls for different keys may be for different servers."""
        return self._cluster is not None

    def perform(self, effect: Effect) -> Any:
        """Perform one effect."""
        if type(effect) is Call:
            return self._call(effect)
        if type(effect) is Park:
            return self._listener.wait(effect.ticket, effect.until, effect.key)
        if type(effect) is Shards:
            return self._shards()
        if type(effect) is Calls:
            return self._calls(effect.calls)
        assert type(effect) is Clock
        return now()

    def _call(self, call: Call) -> Any:
        began, tries, whole, moved = now(), None, False, None
        patience = self._patience_of(call)
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
                tries.again()
                call = call.again()
            left = max(began + seconds - now(), SHORTEST)

    def _calls(self, calls: Sequence[Call]) -> list[Any]:
        """Run calls together; see the effect."""
        results: list[Any] = [None] * len(calls)
        left = dict(enumerate(calls))
        moves: dict[int, Moved] = {}
        began, tries, patience = now(), None, max((self._patience_of(call) for call in calls), default=0.0)
        seconds = max((limit(call, patience) for call in calls), default=0.0) if self.timeout is None else self.timeout
        while left:
            failed: dict[int, Retry] = {}
            for at, answer in self._round(left, moves, min(TIMEOUT, max(began + seconds - now(), SHORTEST))):
                moves.pop(at, None)
                if isinstance(answer, Retry):
                    failed[at], moved = answer, self._endpoint.failed(answer)
                    if moved is not None:
                        moves[at] = moved
                else:
                    results[at] = answer
            left = {at: left[at].again() for at in failed}
            if not failed:
                break
            last = failed[min(failed)]
            try:
                tries = tries or Tries(self._endpoint.shown, began, patience)
                time.sleep(tries.pause(last))
                tries.again()
            except LockworkError:
                for at, why in failed.items():
                    results[at] = gone(self._endpoint.shown, why, now() - began)
                break
        return results

    def _round(self, left: Mapping[int, Call], moves: Mapping[int, Moved], seconds: float) -> list[tuple[int, Any]]:
        """Send calls once, those for one server together; returns what each ended with.

        A server that does not answer, or to which there is no connection, comes last.
        """
        answers: list[tuple[int, Any]] = []
        groups: dict[WirePool, dict[int, Sending]] = {}
        for at, call in left.items():
            moved, pool, sent = moves.get(at), self._pool, call
            try:
                if self._cluster is not None:
                    pool, sent = self._routed(self._cluster, call, moved)
            except (Retry, LockworkError) as error:
                answers.append((at, error))
                continue
            asking = moved is not None and moved.once
            groups.setdefault(pool, {})[at] = Sending(sent, asking=asking)
        connecting = threading.Event()
        attempts = {pool: pool.dialing(seconds, connecting.set) for pool in groups if not pool.connected}
        until = now() + seconds
        answers += self._ask({pool: some for pool, some in groups.items() if pool not in attempts}, seconds)
        while attempts:
            connecting.wait(max(0.0, until - now()))
            connecting.clear()
            late = now() >= until
            ended = [pool for pool, attempt in attempts.items() if late or attempt.ended]
            for pool in ended:
                try:
                    pool.connected_by(attempts.pop(pool))
                except (Retry, LockworkError) as error:
                    answers += [(at, error) for at in groups.pop(pool)]
            answers += self._ask({pool: groups[pool] for pool in ended if pool in groups}, max(until - now(), SHORTEST))
        return answers

    def _ask(self, groups: Mapping[WirePool, Mapping[int, Sending]], seconds: float) -> list[tuple[int, Any]]:
        """Send each server its calls, then take the answers as they come."""
        answers: list[tuple[int, Any]] = []
        asked: dict[Wire, WirePool] = {}
        until = now() + seconds
        try:
            for pool, some in groups.items():
                try:
                    asked[pool.send(list(some.values()), seconds)] = pool
                except (Retry, LockworkError) as error:
                    answers += [(at, error) for at in some]
            while asked:
                for wire in _answering(list(asked), until):
                    wire.limit(max(until - now(), SHORTEST))
                    pool = asked.pop(wire)
                    some = groups[pool]
                    answers += zip(some, pool.receive(wire, list(some.values())), strict=True)
        finally:
            for wire, pool in asked.items():
                pool.give_up(wire)
        return answers

    def _patience_of(self, call: Call) -> float:
        return self._patience if call.patience is None else min(call.patience, self._patience)

    def _routed(self, cluster: ClusterEndpoint, call: Call, moved: Moved | None) -> tuple[WirePool, Call]:
        """Return the connections to the node for a call, and the call as it is sent there."""
        if cluster.stale:
            cluster.refresh()
        node = cluster.route(call) if moved is None else cluster.moved_slot(moved)
        pool = self._pools.get(node)
        if pool is None:
            pool = self._pools.setdefault(node, WirePool(node, allow_eviction=self._allow_eviction))
        return pool, cluster.prepare(call)

    def _shards(self) -> int:
        began, tries = now(), None
        while self._cluster is not None and self._cluster.stale:
            try:
                self._cluster.refresh()
                break
            except Retry as error:
                tries = tries or Tries(self._endpoint.shown, began, self._patience)
                time.sleep(tries.pause(error))
                tries.again()
        return self._endpoint.shards()

    def close(self) -> None:
        """Close the connections that are not in use; those in use are closed after their call."""
        for pool in (self._pool, *list(self._pools.values())):
            pool.close()


def _answering(wires: list[Wire], until: float) -> list[Wire]:
    """Wait for the first that answers; when the time is up, all of them."""
    if len(wires) == 1:
        return wires
    with selectors.DefaultSelector() as selector:
        for wire in wires:
            selector.register(wire.fileno(), selectors.EVENT_READ, wire)
        ready = [key.data for key, _ in selector.select(max(0.0, until - now()))]
    return ready or wires
