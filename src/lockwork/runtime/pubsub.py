"""The connection that receives the messages of a process: checked by pings, and reopened when it breaks."""

from __future__ import annotations

import select
import selectors
from collections.abc import Callable
from typing import Any

import hiredis

from lockwork.logs import Log
from lockwork.protocol.messages import split
from lockwork.runtime.clock import now
from lockwork.runtime.endpoint import TIMEOUT, Endpoint
from lockwork.runtime.leader import Leadership
from lockwork.runtime.reconnect import Dial
from lockwork.runtime.replies import Retry, unforeseen
from lockwork.runtime.resp import pack
from lockwork.runtime.sync_connection import Wire
from lockwork.runtime.trying import backoff

log: Log = Log("lockwork")

PING = 5.0
"""Seconds between two pings."""
SILENCE = 12.0
"""Seconds without a message or ping reply until the subscription counts as dead."""


def refusal(error: object, channel: str) -> str:
    """Return the server's answer to a refused subscription, and the remedy."""
    if "NOPERM" not in str(error):
        return str(error)
    return f"{error}: let this user use the channels &{channel.rpartition(':wake:')[0]}:wake:* (ACL SETUSER)"


class PubSubConnection:
    """A connection that receives messages, maintained by the engine; subclasses handle the messages."""

    def __init__(
        self,
        endpoint: Endpoint,
        selector: selectors.BaseSelector,
        ring: Callable[[], None],
        *,
        allow_eviction: bool,
    ) -> None:
        self._endpoint = endpoint
        self._selector = selector
        self._ring = ring
        self._allow_eviction = allow_eviction
        self._dial: Dial | None = None
        """The current attempt to connect, which wakes the engine when it ends."""
        self._wire = Wire(endpoint)
        self._descriptor: int | None = None
        self._tries = 0
        self._heard = 0.0
        self._warned = 0.0
        self._traced = False
        self.next_event: float | None = None

    def tend(self) -> None:
        """Connect if needed, and check the connection by pings."""
        at = now()
        if self._wire.connected:
            if at - self._heard > SILENCE:
                self._broken("the server stopped answering")
            elif self._wire.era != self._endpoint.era:
                self._broken("the server is a replica now, or another one has taken its place")
            elif self.next_event is not None and at >= self.next_event:
                self._send("PING")
        if self._dial is not None:
            if self._dial.ended:
                self._connected()
            elif self.next_event is not None and at >= self.next_event:
                self._broken("nobody answers")
        elif not self._wire.connected and (self.next_event is None or at >= self.next_event):
            self._dial = Dial(self._endpoint, TIMEOUT, allow_eviction=self._allow_eviction, then=self._ring)
            self.next_event = now() + TIMEOUT

    def read(self) -> None:
        """Process received messages."""
        try:
            replies = self._wire.arrived()
        except Retry as error:
            self._broken(error)
            return
        self._heard = now()
        for reply in replies:
            if not self._take(reply):
                return

    def close(self) -> None:
        """Close the connection."""
        if self._descriptor is not None:
            self._selector.unregister(self._descriptor)
            self._descriptor = None
        if self._dial is not None:
            self._dial.leave()
            self._dial = None
        self._wire.close()

    def _register(self) -> None:
        """Let the engine notice received messages."""
        self._descriptor = self._wire.fileno()
        self._selector.register(self._descriptor, selectors.EVENT_READ, self.read)

    def _begin(self) -> None:
        """Subscribe, on a new connection."""

    def _take(self, reply: Any) -> bool:  # noqa: ARG002 - subclasses
        """Handle a reply or a message; return False when the connection is closed."""
        return True

    def _connected(self) -> None:
        dial, self._dial = self._dial, None
        assert dial is not None
        try:
            self._wire = dial.result(0)
        except Exception as error:  # noqa: BLE001 - whatever it is, this thread also renews the leases
            self._broken(error)
            return
        self._wire.limit(0)  # this thread never waits for a peer: it also renews the leases
        self._register()
        self._heard = now()
        self._begin()

    def _send(self, *command: str) -> None:
        try:
            self._wire.send(pack(*command))
        except Retry as error:
            self._broken(error)
        else:
            self.next_event = now() + PING

    def _confirm(self) -> None:
        """Record that the server accepted a subscription."""
        self._tries, self._traced = 0, False

    def _broken(self, why: object) -> None:
        self.close()
        self._tries += 1
        self.next_event = now() + backoff(self._tries)
        traced = None if self._traced else unforeseen(why)
        if self._tries == 1 or traced is not None or now() - self._warned > SILENCE:
            self._warned = now()
            self._traced = self._traced or traced is not None
            log.warning("no wake-ups arrive until the connection is back: %s", why, exc_info=traced)


class Subscription(PubSubConnection):
    """The pub/sub connection of a process to its one server."""

    def __init__(
        self,
        endpoint: Endpoint,
        channel: str,
        deliver: Callable[[str, str], None],
        missed: Callable[[], None],
        selector: selectors.BaseSelector,
        ring: Callable[[], None],
        *,
        allow_eviction: bool,
        leadership: Leadership,
    ) -> None:
        super().__init__(endpoint, selector, ring, allow_eviction=allow_eviction)
        self._leadership = leadership
        self._inner: select.epoll | None = None
        """Contains the connection, where a leader may read it."""
        self._failed: Wire | None = None
        """The connection that a leader reported as broken."""
        self._channel = channel
        self._confirmed = False
        self._deliver = deliver
        self._missed = missed

    def _register(self) -> None:
        if not hasattr(select, "epoll") or not self._wire.plain:
            super()._register()
            return
        # a leader pauses the inner epoll, which the engine's selector contains, without a change of that selector
        self._inner = select.epoll()
        self._inner.register(self._wire.fileno(), select.EPOLLIN)
        self._descriptor = self._inner.fileno()
        self._selector.register(self._descriptor, selectors.EVENT_READ, self._read_without_leader)
        self._leadership.open(self)

    def _read_without_leader(self) -> None:
        self._leadership.read_as_engine(self.read)

    def _begin(self) -> None:
        self._confirmed = False
        self._send("SUBSCRIBE", self._channel)

    def tend(self) -> None:
        """Connect if needed, and check the connection by pings."""
        if self._failed is not None:
            failed, self._failed = self._failed, None
            if failed is self._wire:
                self._broken("it closed while a thread read its messages")
        super().tend()

    def close(self) -> None:
        """Close the connection."""
        self._confirmed = self._leadership.subscribed = False
        super().close()
        inner, self._inner = self._inner, None
        if inner is not None:
            inner.close()
            self._leadership.revoke()

    def for_leader(self) -> Wire | None:
        """Return the connection; None while no leader can read it."""
        wire = self._wire
        usable = self._confirmed and self._inner is not None and wire.era == self._endpoint.era
        return wire if usable and wire.connected and self._failed is not wire else None

    def pause(self, *, paused: bool) -> None:
        """Make the engine ignore arriving messages, or notice them again."""
        inner, descriptor = self._inner, self._wire.fileno()
        if inner is not None and descriptor >= 0:
            try:  # noqa: SIM105 - contextlib.suppress costs more, and each hand-over comes here
                inner.modify(descriptor, 0 if paused else select.EPOLLIN)
            except (OSError, ValueError):  # closed by the engine
                pass

    def read_as_leader(self, wire: Wire) -> bool:
        """Process received messages; return False if the connection broke."""
        try:
            replies = wire.arrived()
        except Retry:
            return False
        self._heard = now()
        for reply in replies:
            self._take(reply)
        return True

    def fail(self, wire: Wire) -> None:
        """Request that the engine reopens the connection."""
        self._failed = wire
        self._leadership.subscribed = False
        self._ring()

    def _take(self, reply: Any) -> bool:
        words = reply if type(reply) is list else []
        if len(words) == 3 and words[0] == b"message":
            self._deliver(*split(words[2]))
        elif isinstance(reply, hiredis.ReplyError):
            # an error reply to a ping: the server is busy or loads its data, and still sends its messages
            if not self._confirmed:
                self._broken(refusal(reply, self._channel))
                self.next_event: float | None = now() + PING
                return False
        elif words[:1] == [b"subscribe"]:
            self._confirmed = self._leadership.subscribed = True
            self._confirm()
            self._missed()  # messages before the subscription were lost
        return True
