"""One asyncio connection shared by all tasks of a loop: calls made in the same turn of the loop leave in few writes."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import hiredis

from lockwork.errors import LockworkError, ServerUnavailable
from lockwork.protocol.effects import Call
from lockwork.runtime.async_reconnect import opened_within
from lockwork.runtime.clock import now
from lockwork.runtime.endpoint import YOUNG, Endpoint, Identity
from lockwork.runtime.replies import Demoted, Failover, Retry
from lockwork.runtime.resp import LARGE, NOTHING, new_reader, pack_call, unacknowledged


class Answers(asyncio.Protocol):
    """Replies come in the order of `pending`; `progress` is called when some came, `ended` when no more will.

    It takes the place of asyncio's streams after the handshake: a reading task would cost a turn of the loop each time.
    """

    def __init__(
        self,
        pending: deque[asyncio.Future[Any]],
        progress: Callable[[], None],
        ended: Callable[[Answers, BaseException | str], None],
    ) -> None:
        self._pending = pending
        self._progress = progress
        self._ended = ended
        self._parser = new_reader()

    def data_received(self, data: bytes) -> None:
        """Take what has come."""
        parser, pending = self._parser, self._pending
        try:
            parser.feed(data)
            while (reply := parser.gets()) is not NOTHING:
                future = pending.popleft()
                if not future.done():
                    future.set_result(reply)
        except (hiredis.HiredisError, IndexError):
            self._ended(self, "the server sent an invalid answer")
        else:
            self._progress()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing comes any more."""
        self._ended(self, exc or "the server closed it")


_SOON = 8
"""Calls that are worth a write of their own, unless many more are under way."""
_LOOK = 0.00015
"""Seconds in which the loop looks for the first answer before it sleeps: to be woken costs more than to look."""
_SKIPPED = 64
"""Calls for which it sleeps at once after an answer that took longer: the server is far away, or busy."""


class Mux:
    """A pipelined connection: `submit` never waits, answers come in the order of the questions."""

    def __init__(self, endpoint: Endpoint, *, silence: float, allow_eviction: bool) -> None:
        self._endpoint = endpoint
        self._silence = silence
        """Seconds without an answer after which the connection is given up; opening it may take as long."""
        self._allow_eviction = allow_eviction
        self._loop = asyncio.get_running_loop()
        self._opening: asyncio.Task[None] | None = None
        self._closed = False
        self._identity: Identity | None = None
        self._era = 0
        self._since = 0.0
        self._abandoned: list[Identity] = []
        self._writer: asyncio.StreamWriter | None = None
        self._answers: Answers | None = None
        self._unsent: list[bytes] = []
        self._pending: deque[asyncio.Future[Any]] = deque()
        self._end: asyncio.Task[Any] | None = None
        self._progress = 0.0
        self._written = 0
        """Bytes that were given to the connection."""
        self._arrived = 0
        """How many of them had reached the other side when that was looked at last."""
        self._skip = 0
        self._sent: set[str] = set()
        """Scripts that have come to the server by this connection."""
        endpoint.observers.add(self._moved)
        self._watch: asyncio.TimerHandle | None = None

    @property
    def connected(self) -> bool:
        """Whether there is a connection to the server of now."""
        return self._writer is not None and self._era == self._endpoint.era

    async def connect(self) -> None:
        """Connect unless connected; raises Retry or a LockworkError."""
        if self._closed:
            raise ServerUnavailable("the app was closed during this call, so its effect is unknown")
        if self._writer is not None and not self.connected:
            self._drop(self._answers, "another server has taken its place")
        if self._writer is None:
            # in a task of its own, for all waiters: one caller's cancellation must not undo it for the others
            opening = self._opening
            if opening is None:
                opening = self._opening = self._loop.create_task(self._open(), name="lockwork-connect")
                opening.add_done_callback(self._opened)
            await asyncio.wait([opening])
            if opening.cancelled():
                raise Retry("it was closed")
            opening.result()

    async def _open(self) -> None:
        opened = await opened_within(self._silence, self._endpoint, self._abandoned, self._allow_eviction)
        self._sent.clear()
        self._answers = Answers(self._pending, self._progressed, self._drop)
        opened.writer.transport.set_protocol(self._answers)
        self._writer, self._identity, self._era, self._since = opened.writer, opened.identity, opened.era, now()
        self._written = self._arrived = 0
        # a loop that ends cancels its tasks, and the connection is closed with this one, whether it has begun or not
        self._end = self._loop.create_task(asyncio.Event().wait(), name="lockwork-connection")
        self._end.add_done_callback(partial(self._with_the_loop, self._answers))

    def _opened(self, opening: asyncio.Task[None]) -> None:
        self._opening = None
        if not opening.cancelled():
            opening.exception()  # its waiters raise it, if any are left

    def call(self, call: Call, *, whole: bool) -> asyncio.Future[Any]:
        """Submit a call: with its script if `whole`, or if it keeps its order and is the first of that script here.

        A script that the server does not know has to be sent again, behind the calls that came after it.
        """
        if self._identity is None:
            call = call.unguarded()
        if call.ordered and call.script.sha not in self._sent:
            whole = True
        future = self.submit(pack_call(call, whole=whole))
        if call.prompt:
            self._flush()
        if whole:
            self._sent.add(call.script.sha)
        return future

    def submit(self, packed: bytes) -> asyncio.Future[Any]:
        """Send a command, soon and with others; the future gets its reply, errors as values, or raises Retry.

        Raises Retry itself when the connection broke before it could be used.
        """
        if self._writer is None:
            # the caller of connect gets this error one turn of the loop later; no reply comes, and the next reply is
            # not for it
            raise Retry(f"the connection to {self._endpoint.shown} broke before it could be used")
        future: asyncio.Future[Any] = self._loop.create_future()
        unsent, pending = self._unsent, self._pending
        if not pending:
            self._progress = began = now()
            self._arrived = self._written
            if self._watch is None:
                self._watch = self._loop.call_later(self._silence, self._check)
            # waiting for company would cost the first a turn of the loop; those behind it travel together
            pending.append(future)
            self._writer.transport.write(packed)
            self._written += len(packed)
            if self._skip:
                self._skip -= 1
            else:
                self._loop.call_soon(self._look, future, began + _LOOK)
            return future
        pending.append(future)
        unsent.append(packed)
        if len(unsent) >= _SOON and 4 * len(unsent) >= len(pending):
            # the server works on these while the loop's other tasks make theirs
            self._flush()
        elif len(unsent) == 1:
            self._loop.call_soon(self._flush)
        return future

    def renounce(self, why: Failover) -> None:
        """Close the connection, because another server may have its address by now; not again and again."""
        if self._writer is None:
            return
        if isinstance(why, Demoted):
            self._endpoint.demoted(self._era)
        elif now() - self._since < YOUNG:
            return
        self._drop(self._answers, str(why))

    async def aclose(self) -> None:
        """Close the connection; calls under way raise Retry."""
        opening = self._opening
        self._shut()
        if opening is not None:
            with contextlib.suppress(asyncio.CancelledError, Retry, LockworkError):
                await opening
        if self._end is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await self._end
        await asyncio.sleep(0)  # the loop closes the socket in its next turn

    def abandon(self) -> None:
        """Close the connections from any thread, after their loop was closed."""
        self._closed = True
        self._endpoint.observers.discard(self._moved)
        try:
            self._loop.call_soon_threadsafe(self._shut)
        except RuntimeError:
            if self._writer is not None:
                with contextlib.suppress(RuntimeError):
                    self._writer.transport.abort()
            self._writer = None

    def _shut(self) -> None:
        self._closed = True
        self._endpoint.observers.discard(self._moved)
        if self._opening is not None:
            # redis-py's connect may swallow that (asyncio.wait_for of Python 3.11), so the task checks again at its end
            self._opening.cancel()
        self._drop(self._answers, "it was closed")
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    def _moved(self) -> None:
        self._loop.call_soon_threadsafe(self._leave)

    def _leave(self) -> None:
        # its server may hang, and then answers nothing that was asked before
        if not self.connected:
            self._drop(self._answers, "another server has taken its place")

    def _with_the_loop(self, answers: Answers, _: object) -> None:
        self._drop(answers, "the event loop was closed")

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        if self._writer is not None and unsent:
            packed = b"".join(unsent) if len(unsent) > 1 else unsent[0]
            self._writer.transport.write(packed)
            self._written += len(packed)

    def _look(self, future: asyncio.Future[Any], until: float) -> None:
        """Let the loop look for the answer without sleeping."""
        if future.done():
            return
        if now() < until:
            self._loop.call_soon(self._look, future, until)
        else:
            self._skip = _SKIPPED

    def _progressed(self) -> None:
        self._progress = now()

    def _drop(self, answers: Answers | None, problem: BaseException | str) -> None:
        if answers is not self._answers or self._writer is None:
            return  # a connection that was given up before
        writer, self._writer, self._answers = self._writer, None, None
        if self._pending and self._identity is not None:
            self._abandoned.append(self._identity)
        self._identity = None
        self._unsent = []  # those are not for the next connection: their callers get an error now
        while self._pending:
            future = self._pending.popleft()
            if not future.done():
                future.set_exception(Retry(f"the connection to {self._endpoint.shown} broke: {problem}"))
                future.exception()  # its caller may have been cancelled: then no other code reads it
        writer.transport.abort()
        if self._end is not None:
            self._end.cancel()

    def _check(self) -> None:
        # a peer that fell silent is only seen by its silence
        self._watch = None
        if not self._pending:
            return
        left = self._progress + self._silence - now()
        if left <= 0 and self._writer is not None:
            transport = self._writer.transport
            waiting = transport.get_write_buffer_size() + unacknowledged(transport.get_extra_info("socket").fileno())
            before, self._arrived = self._arrived, self._written - waiting
            if self._arrived - before < LARGE:
                self._drop(self._answers, "the server stopped answering")
                return
            # it is busy with what was written, and gets on with it: the answer may take longer
            self._progress, left = now(), self._silence
        self._watch = self._loop.call_later(max(left, 0.05), self._check)
