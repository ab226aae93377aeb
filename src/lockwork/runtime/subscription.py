"""The connection on which a process hears its channel: kept honest by pings, and opened again when it breaks."""

from __future__ import annotations

import logging
import selectors
from collections.abc import Callable

import hiredis

from lockwork.errors import LockworkError
from lockwork.runtime.clock import now
from lockwork.runtime.endpoint import Endpoint
from lockwork.runtime.packing import pack
from lockwork.runtime.replies import Retry
from lockwork.runtime.sync import backoff
from lockwork.runtime.wire import Wire

log: logging.Logger = logging.getLogger("lockwork")

_PING = 5.0
_SILENCE = 12.0
"""Seconds without a word on the subscription, pings answered included, after which it counts as dead."""


class Subscription:
    """The one pub/sub connection of a process."""

    def __init__(
        self,
        endpoint: Endpoint,
        channels: list[str],
        deliver: Callable[[str, str], None],
        missed: Callable[[], None],
        selector: selectors.BaseSelector,
    ) -> None:
        self._endpoint = endpoint
        self._channels = channels
        self._subscribed = 0
        self._confirmed = 0
        self._deliver = deliver
        self._missed = missed
        self._selector = selector
        self._wire = Wire(endpoint)
        self._descriptor: int | None = None
        self._tries = 0
        self._heard = 0.0
        self._warned = 0.0
        self.next_event: float | None = None

    def tend(self) -> None:
        """Connect if need be, and keep the connection honest by pings."""
        at = now()
        if self._wire.connected:
            if at - self._heard > _SILENCE:
                self._broken("it fell silent")
            elif self.next_event is not None and at >= self.next_event:
                self._send("PING")
        if self._wire.connected and self._subscribed < len(self._channels):  # it may just have been given up
            self._subscribe()
        if not self._wire.connected and (self.next_event is None or at >= self.next_event):
            self._connect()

    def read(self) -> None:
        """Take what has come and deliver it."""
        try:
            replies = self._wire.arrived()
        except Retry as error:
            self._broken(error)
            return
        self._heard = now()
        for reply in replies:
            if isinstance(reply, hiredis.ReplyError):
                # to a ping: it is busy or loads its data, and we hear it all the same
                if self._confirmed < self._subscribed:
                    self._broken(reply)
                    self.next_event = now() + _PING
                    return
                continue
            words = reply if isinstance(reply, list) else []
            if words[:1] == [b"message"] and len(words) == 3:
                ticket, _, text = words[2].decode(errors="replace").partition(" ")
                self._deliver(ticket, text)
            elif words[:1] == [b"subscribe"]:
                self._confirmed += 1
                self._tries = 0
                self._missed()  # what was sent before we listened is lost

    def close(self) -> None:
        """Close the connection."""
        if self._descriptor is not None:
            self._selector.unregister(self._descriptor)
            self._descriptor = None
        self._wire.close()

    def _connect(self) -> None:
        try:
            self._wire.connect()
        except (Retry, LockworkError) as error:
            self._broken(error)
            return
        self._descriptor = self._wire.fileno()
        self._selector.register(self._descriptor, selectors.EVENT_READ)
        self._heard = now()
        self._subscribed = self._confirmed = 0
        self._subscribe()

    def _subscribe(self) -> None:
        new = self._channels[self._subscribed :]
        self._subscribed += len(new)
        self._send("SUBSCRIBE", *new)

    def _send(self, *command: str) -> None:
        try:
            self._wire.send(pack(*command))
        except Retry as error:
            self._broken(error)
        else:
            self.next_event = now() + _PING

    def _broken(self, why: object) -> None:
        self.close()
        self._tries += 1
        self.next_event = now() + backoff(self._tries)
        if self._tries == 1 or now() - self._warned > _SILENCE:
            self._warned = now()
            log.warning("wake-ups are not heard until the connection is back: %s", why)
