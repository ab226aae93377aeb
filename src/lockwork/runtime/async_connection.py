"""One asyncio connection shared by all tasks of a loop: calls made in the same turn of the loop leave in few writes."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Any, NoReturn

import hiredis

from lockwork.errors import LockworkError, ServerUnavailable
from lockwork.protocol.effects import Call
from lockwork.runtime.async_reconnect import opened_within
from lockwork.runtime.call_errors import raise_call_error
from lockwork.runtime.clock import now
from lockwork.runtime.endpoint import YOUNG, Endpoint, Identity
from lockwork.runtime.replies import Demoted, Failover, Retry
from lockwork.runtime.resp import LARGE, NOTHING, new_reader, pack_call, pack_function_call, unacknowledged


class Answers(asyncio.Protocol):
    """Receives replies, in the order of `pending`; calls `progress` after replies, and `ended` after the last.

    It replaces asyncio's streams after the handshake: with a stream, each read would cost one turn of the loop.
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
        """Parse the received bytes."""
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
        """End after the connection is lost."""
        self._ended(self, exc or "the server closed it")


_SOON = 8
"""Number of calls that are written at once, unless many more are under way."""
_POLL = 0.00015
"""Seconds that the loop polls for the first answer before it sleeps: a wake-up costs more than a poll."""
_SKIPPED = 64
"""Number of calls without polling after an answer that took longer: the server is distant, or busy."""


class Mux:
    """A pipelined connection: `submit` never waits, and replies arrive in the order of the requests."""

    def __init__(self, endpoint: Endpoint, *, silence: float, allow_eviction: bool) -> None:
        self._endpoint = endpoint
        self._silence = silence
        """Maximum seconds without a reply; then the connection is abandoned. Also the time limit for opening it."""
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
        self._last_end: AsyncGenerator[None, None] | None = None
        self._progress = 0.0
        self._written = 0
        """Number of bytes written to the connection."""
        self._arrived = 0
        """Number of them that the peer had received at the last check."""
        self._skip = 0
        self._sent: set[str] = set()
        """Scripts that reached the server through this connection."""
        endpoint.observers.add(self._moved)
        self._watch: asyncio.TimerHandle | None = None

    @property
    def connected(self) -> bool:
        """True if a connection to the current server exists."""
        return self._writer is not None and self._era == self._endpoint.era

    async def connect(self) -> None:
        """Connect unless connected; raises Retry or a LockworkError."""
        if self._closed:
            raise ServerUnavailable("the app was closed during this call, so its effect is unknown")
        if self._writer is not None and not self.connected:
            self._drop(self._answers, "another server has taken its place")
        if self._writer is None:
            # in a separate asyncio task: the cancellation of one caller must not cancel it for the others
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
        # a loop that ends cancels its asyncio tasks; this task then closes the connection, even before its first step
        self._end = self._loop.create_task(asyncio.Event().wait(), name="lockwork-connection")
        self._end.add_done_callback(partial(self._with_the_loop, self._answers))
        if self._last_end is None:
            self._last_end = self._until_loop_ends()
            await anext(self._last_end)

    async def _until_loop_ends(self) -> AsyncGenerator[None, None]:
        """Close a connection that a cancelled task opened for its cleanup: a loop that ends closes generators last."""
        try:
            yield
        finally:
            self._drop(self._answers, "the event loop was closed")
            if self._end is not None:
                with contextlib.suppress(asyncio.CancelledError):
                    await self._end
            await asyncio.sleep(0)  # the loop closes the socket in its next turn

    def _opened(self, opening: asyncio.Task[None]) -> None:
        self._opening = None
        if not opening.cancelled():
            opening.exception()  # the waiters raise it, if any remain

    def call(self, call: Call, *, whole: bool) -> asyncio.Future[Any]:
        """Submit a call, with its script if `whole`, or if it keeps its order and is the script's first use here.

        If the server does not know the script, the call is sent again, after the calls that followed it.
        """
        if self._identity is None:
            call = call.unguarded()
        if call.ordered and call.script.sha not in self._sent:
            whole = True
        if self._endpoint.by_function and call.script.declared.no_writes:
            return self.submit(pack_function_call(call))
        future = self.submit(pack_call(call, whole=whole))
        if call.prompt:
            self._flush()
        if whole:
            self._sent.add(call.script.sha)
        return future

    def raise_error(self, call: Call, message: str) -> NoReturn:
        """Raise the exception for an error reply to a call."""
        raise_call_error(self._endpoint, call, message)

    def submit(self, packed: bytes) -> asyncio.Future[Any]:
        """Send a command, soon and together with others. The future gets its reply, errors as values, or raises Retry.

        Raises Retry directly if the connection broke before it could be used.
        """
        if self._writer is None:
            # the caller of connect gets this error one turn of the loop later; the command gets no reply
            raise Retry(f"the connection to {self._endpoint.shown} broke before it could be used")
        future: asyncio.Future[Any] = self._loop.create_future()
        unsent, pending = self._unsent, self._pending
        if not pending:
            self._progress = began = now()
            self._arrived = self._written
            if self._watch is None:
                self._watch = self._loop.call_later(self._silence, self._check)
            # delaying the first call would cost it a turn of the loop; the calls after it travel together
            pending.append(future)
            self._writer.transport.write(packed)
            self._written += len(packed)
            if self._skip:
                self._skip -= 1
            else:
                self._loop.call_soon(self._poll, future, began + _POLL)
            return future
        pending.append(future)
        unsent.append(packed)
        if len(unsent) >= _SOON and 4 * len(unsent) >= len(pending):
            # the server works on these while the loop's other coroutines prepare theirs
            self._flush()
        elif len(unsent) == 1:
            self._loop.call_soon(self._flush)
        return future

    def renounce(self, why: Failover) -> None:
        """Close the connection unless it is new, because another server may have its address by now."""
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
        if self._last_end is not None:
            await self._last_end.aclose()

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
            # redis-py's connect may swallow the cancellation (asyncio.wait_for of Python 3.11), so the task checks
            # again at its end
            self._opening.cancel()
        self._drop(self._answers, "it was closed")
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    def _moved(self) -> None:
        self._loop.call_soon_threadsafe(self._leave)

    def _leave(self) -> None:
        # the replaced server may hang, and then never answers earlier requests
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

    def _poll(self, future: asyncio.Future[Any], until: float) -> None:
        """Let the loop poll for the reply without sleeping."""
        if future.done():
            return
        if now() < until:
            self._loop.call_soon(self._poll, future, until)
        else:
            self._skip = _SKIPPED

    def _progressed(self) -> None:
        self._progress = now()

    def _drop(self, answers: Answers | None, problem: BaseException | str) -> None:
        if answers is not self._answers or self._writer is None:
            return  # an earlier, abandoned connection
        writer, self._writer, self._answers = self._writer, None, None
        if self._pending and self._identity is not None:
            self._abandoned.append(self._identity)
        self._identity = None
        self._unsent = []  # their callers get an error now, so the next connection must not send them
        while self._pending:
            future = self._pending.popleft()
            if not future.done():
                future.set_exception(Retry(f"the connection to {self._endpoint.shown} broke: {problem}"))
                future.exception()  # its caller may have been cancelled: then no other code retrieves the exception
        writer.transport.abort()
        if self._end is not None:
            self._end.cancel()

    def _check(self) -> None:
        # only a timer detects a peer that fell silent
        self._watch = None
        if not self._pending:
            return
        remaining = self._progress + self._silence - now()
        if remaining <= 0 and self._writer is not None:
            transport = self._writer.transport
            waiting = transport.get_write_buffer_size() + unacknowledged(transport.get_extra_info("socket").fileno())
            before, self._arrived = self._arrived, self._written - waiting
            if self._arrived - before < LARGE:
                self._drop(self._answers, "the server stopped answering")
                return
            # the peer makes progress with the written bytes: the reply may take longer
            self._progress, remaining = now(), self._silence
        self._watch = self._loop.call_later(max(remaining, 0.05), self._check)
