"""The asyncio driver: runs a protocol in the caller's asyncio task; all calls of a loop share one connection."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import hiredis

from lockwork.errors import LockworkError
from lockwork.protocol.effects import Call, Calls, Effect, Indexed, Park, Protocol, Shards
from lockwork.runtime.async_connection import Mux
from lockwork.runtime.clock import HEALTHY, REPLICAS, limit, now
from lockwork.runtime.drive import adrive
from lockwork.runtime.endpoint import SHORTEST, TIMEOUT, Endpoint
from lockwork.runtime.replies import Failover, Late, Moved, NoScript, Retry, acknowledged
from lockwork.runtime.resp import ASKING, pack_ahead, pack_wait
from lockwork.runtime.trying import Tries
from lockwork.runtime.wakeups import WakeupSource

if TYPE_CHECKING:
    from lockwork.runtime.cluster import ClusterEndpoint

E = TypeVar("E")
T = TypeVar("T")


class AsyncDriver:
    """Performs effects on one event loop."""

    def __init__(self, endpoint: Endpoint, listener: WakeupSource, *, patience: float, allow_eviction: bool) -> None:
        self._endpoint = endpoint
        self._cluster = endpoint.as_cluster
        self._listener = listener
        self._names = listener.names
        self._patience = patience
        self._allow_eviction = allow_eviction
        self._silence = min(TIMEOUT, max(HEALTHY, patience))
        self.mux: Mux = self._new_mux(endpoint)
        """Connection to the server; unused for a Cluster."""
        self._others: dict[tuple[Endpoint, bool], Mux] = {}
        """Connections by node of a Cluster. Calls that wait for replicas have a second connection, so that other calls
        do not queue behind them.
        """

    def run(self, protocol: Protocol[T]) -> Coroutine[Any, Any, T]:
        """Run `protocol` to its end; if the asyncio task is cancelled, run the protocol's cleanup first."""
        return adrive(protocol, self._perform)

    def _perform(self, effect: Effect) -> Coroutine[Any, Any, Any]:
        if type(effect) is Call:
            return self._noted(effect) if effect.script.declared.indexed else self._call(effect)
        if type(effect) is Shards:
            return self._shards()
        if type(effect) is Calls:
            return self._calls(effect.calls)
        if type(effect) is Indexed:
            return self._own(effect.kind)
        assert type(effect) is Park
        return self._listener.async_wait(effect.ticket, effect.until, effect.key, effect.sent, effect.held)

    async def _calls(self, calls: Sequence[Call]) -> list[Any]:
        """Run calls together: all calls to one server are sent in one turn of the loop."""
        return await asyncio.gather(*map(self._settled, calls))

    async def _own(self, kind: str) -> list[str]:
        return self._names.own(kind)

    async def _settled(self, call: Call) -> Any:
        try:
            return await (self._noted(call) if call.script.declared.indexed else self._call(call))
        except LockworkError as error:
            return error

    async def _noted(self, call: Call) -> Any:
        reply = await self._call(call)
        self._names.used(call)
        return reply

    async def _call(self, call: Call) -> Any:
        began, tries, whole, moved = now(), None, False, None
        slow = bool(call.replicas or call.behind)
        while True:
            mux, sent = self.mux, call
            try:
                if self._cluster is not None:
                    mux, sent = await self._routed(self._cluster, call, moved, began)
                elif slow:
                    mux = self._to(self._endpoint, slow)
                asking = moved is not None and moved.once
                if call.patience is None and tries is None and mux.connected and not call.replicas:
                    answer = mux.call(sent, whole=whole)
                    if call.ahead is not None:
                        pack_ahead(call)
                    reply = await answer
                else:
                    reply = await self._limited(mux, sent, began, whole=whole, asking=asking)
                if type(reply) is not hiredis.ReplyError:
                    return reply
                mux.raise_error(call, str(reply))
            except NoScript:
                whole = True
                self._names.forget()
            except Retry as error:
                moved = self._endpoint.failed(error)
                if isinstance(error, Failover):
                    mux.renounce(error)
                tries = tries or Tries(self._endpoint.shown, began, self._patience_of(call))
                await asyncio.sleep(tries.pause(error))
                tries.again()
                call = call.again()

    async def _limited(self, mux: Mux, call: Call, began: float, *, whole: bool, asking: bool) -> Any:
        remaining = self._left(call, began)
        seconds = min(TIMEOUT, max(remaining, SHORTEST))
        server, sent = self._endpoint.shown, False
        try:
            async with asyncio.timeout(seconds):
                if not mux.connected:
                    await mux.connect()
                sent = True
                if asking:
                    mux.submit(ASKING)
                reply = mux.call(call, whole=whole)
                if not call.replicas:
                    return await reply
                count = mux.submit(pack_wait(call.replicas, REPLICAS))
                first = await reply
                return first if type(first) is hiredis.ReplyError else (first, acknowledged(await count, server))
        except TimeoutError:
            late = Late("no answer", seconds)
            late.sent = sent
            raise late from None
        except Retry as error:
            error.sent = error.sent and sent
            raise

    async def _routed(
        self, cluster: ClusterEndpoint, call: Call, moved: Moved | None, began: float
    ) -> tuple[Mux, Call]:
        """Return the connection to the node for a call, and the call in the form for that node."""
        if cluster.stale:
            seconds = max(self._left(call, began), SHORTEST)
            try:
                async with asyncio.timeout(seconds):
                    await cluster.arefresh()
            except TimeoutError:
                late = Late(f"no node of the Cluster at {cluster.shown} named the slots", seconds)
                late.sent = False
                raise late from None
        node = cluster.route(call) if moved is None else cluster.moved_slot(moved)
        return self._to(node, bool(call.replicas or call.behind)), cluster.prepare(call)

    async def _shards(self) -> int:
        began, tries = now(), None
        while self._cluster is not None and self._cluster.stale:
            try:
                await self._cluster.arefresh()
                break
            except Retry as error:
                tries = tries or Tries(self._endpoint.shown, began, self._patience)
                await asyncio.sleep(tries.pause(error))
                tries.again()
        return self._endpoint.shards()

    def _left(self, call: Call, began: float) -> float:
        return began + limit(call, self._patience_of(call)) - now()

    def _patience_of(self, call: Call) -> float:
        return self._patience if call.patience is None else min(call.patience, self._patience)

    def _to(self, node: Endpoint, slow: bool) -> Mux:
        mux = self._others.get((node, slow))
        if mux is None:
            mux = self._others[node, slow] = self._new_mux(node)
        return mux

    def _new_mux(self, endpoint: Endpoint) -> Mux:
        return Mux(endpoint, silence=self._silence, allow_eviction=self._allow_eviction)

    async def aclose(self) -> None:
        """Close the connections."""
        for mux in (self.mux, *self._others.values()):
            await mux.aclose()

    def abandon(self) -> None:
        """Close the connections from any thread, even if the loop is closed."""
        for mux in (self.mux, *list(self._others.values())):
            mux.abandon()
