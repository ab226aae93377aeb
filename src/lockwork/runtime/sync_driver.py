"""The sync driver: runs a protocol on the caller's thread."""

from __future__ import annotations

import selectors
import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from lockwork.errors import LockworkError
from lockwork.protocol.effects import Call, Calls, Clock, Effect, Indexed, Park, Protocol, Shards
from lockwork.runtime.clock import limit, now
from lockwork.runtime.drive import drive, no_running_loop
from lockwork.runtime.endpoint import SHORTEST, TIMEOUT, Endpoint
from lockwork.runtime.replies import Moved, NoScript, Retry, gone
from lockwork.runtime.sync_connection import Wire
from lockwork.runtime.sync_pool import Sending, WirePool
from lockwork.runtime.trying import Tries
from lockwork.runtime.wakeups import WakeupSource

if TYPE_CHECKING:
    from lockwork.runtime.cluster import ClusterEndpoint

E = TypeVar("E")
T = TypeVar("T")


class SyncDriver:
    """Performs effects with blocking calls."""

    def __init__(self, endpoint: Endpoint, listener: WakeupSource, *, patience: float, allow_eviction: bool) -> None:
        self._endpoint = endpoint
        self._cluster = endpoint.as_cluster
        self._listener = listener
        self._names = listener.names
        self._patience = patience
        self._allow_eviction = allow_eviction
        self._pool = WirePool(endpoint, allow_eviction=allow_eviction)
        """Connections to the server; unused for a Cluster."""
        self._pools: dict[Endpoint, WirePool] = {}
        """Connections of a Cluster, by node."""
        self.timeout: float | None = None
        """Time limit in seconds for one call with all its tries, if it is shorter than the default."""

    def run(self, protocol: Protocol[T]) -> T:
        """Run `protocol` to its end; raises BlockingCallError on the thread of a running event loop."""
        no_running_loop()
        return drive(protocol, self.perform)

    def slot(self, key: str) -> int:
        """Return a number that is equal for keys that may be in one call."""
        return self._endpoint.slot(key)

    def server(self, key: str) -> object:
        """Return an object that identifies the known server of a key."""
        return self._cluster.owner(self._cluster.slot(key)) if self._cluster is not None else None

    @property
    def clustered(self) -> bool:
        """True if calls for different keys may go to different servers."""
        return self._cluster is not None

    def perform(self, effect: Effect) -> Any:
        """Perform one effect."""
        if type(effect) is Call:
            return self._call(effect)
        if type(effect) is Park:
            return self._listener.wait(effect.ticket, effect.until, effect.key, effect.sent, effect.held)
        if type(effect) is Shards:
            return self._shards()
        if type(effect) is Calls:
            return self._calls(effect.calls)
        if type(effect) is Indexed:
            return self._names.own(effect.kind)
        assert type(effect) is Clock
        return now()

    def _call(self, call: Call) -> Any:
        began, tries, whole, moved = now(), None, False, None
        patience = self._patience_of(call)
        seconds = limit(call, patience) if self.timeout is None else self.timeout
        remaining = seconds
        while True:
            pool, sent = self._pool, call
            try:
                if self._cluster is not None:
                    pool, sent = self._routed(self._cluster, call, moved)
                reply = pool.once(sent, min(TIMEOUT, remaining), whole=whole, asking=moved is not None and moved.once)
            except NoScript:
                whole = True
                self._names.forget()
            except Retry as error:
                moved = self._endpoint.failed(error)
                tries = tries or Tries(self._endpoint.shown, began, patience)
                time.sleep(tries.pause(error))
                tries.again()
                call = call.again()
            else:
                if call.script.declared.indexed:
                    self._names.used(call)
                return reply
            remaining = max(began + seconds - now(), SHORTEST)

    def _calls(self, calls: Sequence[Call]) -> list[Any]:
        """Run calls together; see the effect."""
        results: list[Any] = [None] * len(calls)
        unanswered = dict(enumerate(calls))
        moves: dict[int, Moved] = {}
        began, tries, patience = now(), None, max((self._patience_of(call) for call in calls), default=0.0)
        seconds = max((limit(call, patience) for call in calls), default=0.0) if self.timeout is None else self.timeout
        while unanswered:
            failed: dict[int, Retry] = {}
            for at, answer in self._round(unanswered, moves, min(TIMEOUT, max(began + seconds - now(), SHORTEST))):
                moves.pop(at, None)
                if isinstance(answer, Retry):
                    failed[at], moved = answer, self._endpoint.failed(answer)
                    if moved is not None:
                        moves[at] = moved
                else:
                    results[at] = answer
                    if calls[at].script.declared.indexed and not isinstance(answer, LockworkError):
                        self._names.used(calls[at])
            unanswered = {at: unanswered[at].again() for at in failed}
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

    def _round(
        self, unanswered: Mapping[int, Call], moves: Mapping[int, Moved], seconds: float
    ) -> list[tuple[int, Any]]:
        """Send calls once, all calls to one server together; return the result of each.

        Unreachable and unresponsive servers come last.
        """
        answers: list[tuple[int, Any]] = []
        groups: dict[WirePool, dict[int, Sending]] = {}
        for at, call in unanswered.items():
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
        """Send the calls to each server, then receive the replies in order of arrival."""
        answers: list[tuple[int, Any]] = []
        pools: dict[Wire, WirePool] = {}
        until = now() + seconds
        try:
            for pool, some in groups.items():
                try:
                    pools[pool.send(list(some.values()), seconds)] = pool
                except (Retry, LockworkError) as error:
                    answers += [(at, error) for at in some]
            while pools:
                for wire in _answering(list(pools), until):
                    wire.limit(max(until - now(), SHORTEST))
                    pool = pools.pop(wire)
                    some = groups[pool]
                    answers += zip(some, pool.receive(wire, list(some.values())), strict=True)
        finally:
            for wire, pool in pools.items():
                pool.give_up(wire)
        return answers

    def _patience_of(self, call: Call) -> float:
        return self._patience if call.patience is None else min(call.patience, self._patience)

    def _routed(self, cluster: ClusterEndpoint, call: Call, moved: Moved | None) -> tuple[WirePool, Call]:
        """Return the connections to the node for a call, and the call in the form for that node."""
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

    def rest(self) -> None:
        """Close idle connections; the next calls open others."""
        for pool in (self._pool, *list(self._pools.values())):
            pool.rest()

    def close(self) -> None:
        """Close idle connections; the others are closed after their call."""
        for pool in (self._pool, *list(self._pools.values())):
            pool.close()


def _answering(wires: list[Wire], until: float) -> list[Wire]:
    """Wait for the first that answers; after the time limit, return all."""
    if len(wires) == 1:
        return wires
    with selectors.DefaultSelector() as selector:
        for wire in wires:
            selector.register(wire.fileno(), selectors.EVENT_READ, wire)
        ready = [key.data for key, _ in selector.select(max(0.0, until - now()))]
    return ready or wires
