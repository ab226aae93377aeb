"""The blocking connections to one server: a call takes one, and returns it if it is intact."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from lockwork.errors import LockworkError
from lockwork.protocol.effects import Call
from lockwork.runtime.clock import REPLICAS, now
from lockwork.runtime.endpoint import YOUNG, Endpoint, Identity
from lockwork.runtime.reconnect import Dial, dial
from lockwork.runtime.replies import Demoted, Failover, Moved, NoScript, Retry, acknowledged
from lockwork.runtime.resp import ASKING, pack_wait
from lockwork.runtime.sync_connection import Wire

_IDLE = 10.0
"""Seconds until a connection that no thread needed is closed, if another one is free."""


class Sending(Struct):
    """A call in the form to send: with its script if `whole`; `asking`: its slot is migrating to the node."""

    call: Call
    whole: bool = False
    asking: bool = False


class WirePool:
    """Connections to one server, kept for reuse: one per calling thread."""

    def __init__(self, endpoint: Endpoint, *, allow_eviction: bool) -> None:
        self._endpoint = endpoint
        self._allow_eviction = allow_eviction
        self._free: deque[Wire] = deque()
        self._abandoned: dict[Identity, None] = {}
        """Connections with an abandoned request that may still run: every later call ends these first."""
        self._busy: set[Wire] = set()
        endpoint.observers.add(self._moved)

    @property
    def connected(self) -> bool:
        """True if a call would find a connection."""
        return bool(self._free)

    def once(self, call: Call, seconds: float, *, whole: bool, asking: bool) -> Any:
        """Send a call once; raises Retry, NoScript, or a LockworkError."""
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
        except BaseException as error:
            self._noted(wire, error)
            raise
        finally:
            self._put_back(wire)

    def send(self, sendings: Sequence[Sending], seconds: float) -> Wire:
        """Send calls together; return a connection, for `receive` to read the replies. Raises Retry or a
        LockworkError.
        """
        wire = self._take(seconds)
        self._busy.add(wire)
        try:
            wire.limit(seconds)
            if self._abandoned:
                self._end_abandoned(wire)
            wire.send(_packed(wire, sendings))
        except BaseException as error:
            self._noted(wire, error)
            self._put_back(wire)
            raise
        return wire

    def receive(self, wire: Wire, sendings: Sequence[Sending]) -> list[Any]:
        """Return for each call its reply or the error that `once` would raise; sends scripts if needed."""
        try:
            replies = _received(wire, sendings)
            lacking = [at for at, reply in enumerate(replies) if isinstance(reply, NoScript)]
            if lacking and not wire.connected:
                for at in lacking:
                    replies[at] = replies[-1]
            elif lacking:
                again = [replace(sendings[at], whole=True) for at in lacking]
                try:
                    wire.send(_packed(wire, again))
                    results = _received(wire, again)
                except Retry as error:
                    results = [error] * len(again)
                for at, reply in zip(lacking, results, strict=True):
                    replies[at] = reply
            for reply in replies:
                if isinstance(reply, Retry):
                    self._noted(wire, reply)
        except BaseException as error:
            self._noted(wire, error)
            raise
        finally:
            self._put_back(wire)
        return replies

    def dialing(self, seconds: float, then: Callable[[], None]) -> Dial:
        """Start connecting; `connected_by` takes the connection."""
        return Dial(self._endpoint, seconds, allow_eviction=self._allow_eviction, then=then)

    def connected_by(self, attempt: Dial) -> None:
        """Keep the connection of a completed attempt; raises Retry or a LockworkError without one."""
        try:
            wire = attempt.result(0)
            wire.used = now()
            self._free.append(wire)
        except BaseException as error:
            attempt.leave()
            if isinstance(error, Retry):
                error.sent = False
            raise

    def give_up(self, wire: Wire) -> None:
        """Abandon a connection with sent calls."""
        self._noted(wire, KeyboardInterrupt())
        self._put_back(wire)

    def _noted(self, wire: Wire, error: BaseException) -> None:
        """Record the error of a call on this connection."""
        if isinstance(error, LockworkError | NoScript | Moved):
            return
        if isinstance(error, Failover):
            self._renounce(wire, error)
            return
        if not isinstance(error, Retry):
            # interrupted between request and reply: the next caller must not read this reply
            wire.close()
        if wire.identity is not None and not wire.connected:
            self._abandoned[wire.identity] = None

    def _put_back(self, wire: Wire) -> None:
        self._busy.discard(wire)
        if wire.connected:
            wire.used = now()
            self._free.append(wire)
            if len(self._free) > 1:
                self._close_idle(wire.used)

    def _close_idle(self, at: float) -> None:
        """Close the connection that was unused for the longest time, if that was long."""
        try:
            oldest = self._free.popleft()
        except IndexError:  # another thread took it
            return
        if at - oldest.used > _IDLE:
            oldest.close()
        else:
            self._free.appendleft(oldest)

    def _moved(self) -> None:
        """Interrupt calls to a server that was replaced."""
        for wire in list(self._busy):
            wire.interrupt()

    def _end_abandoned(self, wire: Wire) -> None:
        for old in list(self._abandoned):
            wire.end(old)
            self._abandoned.pop(old, None)

    def _renounce(self, wire: Wire, why: Failover) -> None:
        """Close the connection unless it is new, because another server may have its address by now."""
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
        """Close idle connections; the others are closed after their call."""
        self._endpoint.observers.discard(self._moved)
        self.rest()

    def rest(self) -> None:
        """Close idle connections; the next calls open others."""
        while self._free:
            self._free.pop().close()


def _packed(wire: Wire, sendings: Sequence[Sending]) -> bytes:
    words: list[bytes] = []
    for each in sendings:
        if each.asking:
            words.append(ASKING)
        words.append(wire.pack(each.call, whole=each.whole))
    return b"".join(words)


def _received(wire: Wire, sendings: Sequence[Sending]) -> list[Any]:
    """Return the replies, with errors in their places; a broken connection's error fills the remaining places."""
    replies: list[Any] = []
    for each in sendings:
        try:
            if each.asking:
                wire.receive()
            replies.append(wire.answer(each.call))
        except (LockworkError, NoScript, Retry) as error:
            replies.append(error)
            if not wire.connected:
                return replies + [error] * (len(sendings) - len(replies))
    return replies
