"""The asyncio driver: runs a protocol in the caller's task; the calls of all tasks share one connection."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, TypeVar

import hiredis

from lockwork.protocol.effects import Call, Clock, Effect, Park, Protocol
from lockwork.runtime.async_connection import Mux
from lockwork.runtime.clock import HEALTHY, REPLICAS, limit, now
from lockwork.runtime.endpoint import SHORTEST, TIMEOUT, Endpoint
from lockwork.runtime.replies import Failover, NoScript, Retry, acknowledged, raise_error
from lockwork.runtime.resp import pack_ahead, pack_wait
from lockwork.runtime.trying import Tries
from lockwork.runtime.wakeups import WakeupSource

E = TypeVar("E")
T = TypeVar("T")


async def adrive(protocol: Generator[E, Any, T], perform: Callable[[E], Awaitable[Any]]) -> T:
    """Run `protocol` to its end in this task; when the task is cancelled, the protocol's clean-up is done first."""
    step: Callable[[Any], E] = protocol.send
    value: Any = None
    while True:
        try:
            effect = step(value)
        except StopIteration as done:
            result: T = done.value
            return result
        step = protocol.send
        if type(effect) is Clock:
            value = now()
            continue
        try:
            value = await perform(effect)
        except asyncio.CancelledError as cancelled:
            await _clean_up(protocol, perform, cancelled)
            raise
        except BaseException as error:  # noqa: BLE001 - the protocol decides, and raises it again
            step, value = protocol.throw, error


async def _clean_up(
    protocol: Generator[E, Any, Any], perform: Callable[[E], Awaitable[Any]], cancelled: asyncio.CancelledError
) -> None:
    """Let the protocol undo what it began, whatever else is cancelled meanwhile."""
    task = asyncio.get_running_loop().create_task(_drive_out(protocol, perform, cancelled))
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):  # ours comes again; the task's own ends the loop
            await asyncio.shield(task)
    if not task.cancelled():
        task.result()


async def _drive_out(
    protocol: Generator[E, Any, Any], perform: Callable[[E], Awaitable[Any]], cancelled: asyncio.CancelledError
) -> None:
    step: Callable[[Any], E] = protocol.throw
    value: Any = cancelled
    while True:
        try:
            effect = step(value)
        except (StopIteration, asyncio.CancelledError):
            return
        try:
            value = now() if type(effect) is Clock else await perform(effect)
            step = protocol.send
        except Exception as error:  # noqa: BLE001 - the protocol decides, and raises it again
            step, value = protocol.throw, error


class AsyncDriver:
    """Performs effects on one event loop."""

    def __init__(self, endpoint: Endpoint, listener: WakeupSource, *, patience: float, allow_eviction: bool) -> None:
        self._endpoint = endpoint
        self._listener = listener
        self._patience = patience
        self._allow_eviction = allow_eviction
        self._silence = min(TIMEOUT, max(HEALTHY, patience))
        self.mux: Mux = Mux(endpoint, silence=self._silence, allow_eviction=allow_eviction)
        self._slow: Mux | None = None
        """A second connection, for calls that wait for replicas: other calls need not wait behind them."""

    def run(self, protocol: Protocol[T]) -> Coroutine[Any, Any, T]:
        """Run `protocol` to its end; when the task is cancelled, the protocol's clean-up is done first."""
        return adrive(protocol, self._perform)

    def _perform(self, effect: Effect) -> Coroutine[Any, Any, Any]:
        if type(effect) is Call:
            return self._call(effect)
        assert type(effect) is Park
        return self._listener.async_wait(effect.ticket, effect.until)

    async def _call(self, call: Call) -> Any:
        began, tries, whole = now(), None, False
        mux = self._for_replicas() if call.replicas or call.behind else self.mux
        while True:
            try:
                if call.patience is None and tries is None and mux.connected and not call.replicas:
                    answer = mux.call(call, whole=whole)
                    if call.ahead is not None:
                        pack_ahead(call)
                    reply = await answer
                else:
                    reply = await self._limited(mux, call, began, whole=whole)
                if type(reply) is not hiredis.ReplyError:
                    return reply
                raise_error(str(reply), self._endpoint.shown, call.script.name)
            except NoScript:
                whole = True
            except Retry as error:
                if isinstance(error, Failover):
                    mux.renounce(error)
                tries = tries or Tries(self._endpoint.shown, began, self._patience_of(call))
                await asyncio.sleep(tries.pause(error))
                tries.again(error)
                call = call.again()

    async def _limited(self, mux: Mux, call: Call, began: float, *, whole: bool) -> Any:
        left = began + limit(call, self._patience_of(call)) - now()
        seconds = min(TIMEOUT, max(left, SHORTEST))
        shown, sent = self._endpoint.shown, False
        try:
            async with asyncio.timeout(seconds):
                if not mux.connected:
                    await mux.connect()
                sent = True
                reply = mux.call(call, whole=whole)
                if not call.replicas:
                    return await reply
                count = mux.submit(pack_wait(call.replicas, REPLICAS))
                first = await reply
                return first if type(first) is hiredis.ReplyError else (first, acknowledged(await count, shown))
        except TimeoutError:
            late = Retry(f"no answer within {seconds:.1f} s")
            late.sent = sent
            raise late from None
        except Retry as error:
            error.sent = error.sent and sent
            raise

    def _patience_of(self, call: Call) -> float:
        return self._patience if call.patience is None else min(call.patience, self._patience)

    def _for_replicas(self) -> Mux:
        if self._slow is None:
            self._slow = Mux(self._endpoint, silence=self._silence, allow_eviction=self._allow_eviction)
        return self._slow

    async def aclose(self) -> None:
        """Close the connections."""
        await self.mux.aclose()
        if self._slow is not None:
            await self._slow.aclose()

    def abandon(self) -> None:
        """Close the connections from any thread, also when the loop is closed."""
        self.mux.abandon()
        if self._slow is not None:
            self._slow.abandon()
