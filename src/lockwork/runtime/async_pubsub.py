"""A subscription on the event loop: messages reach a waiting coroutine without a thread switch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import hiredis

from lockwork.logs import Log
from lockwork.protocol.messages import split
from lockwork.runtime.async_reconnect import opened_within
from lockwork.runtime.clock import now
from lockwork.runtime.endpoint import TIMEOUT, Endpoint
from lockwork.runtime.pubsub import PING, SILENCE
from lockwork.runtime.replies import unforeseen
from lockwork.runtime.resp import NOTHING, new_reader, pack
from lockwork.runtime.trying import backoff
from lockwork.runtime.wakeups import Mailboxes

log: Log = Log("lockwork")


def _always() -> bool:
    return True


class Hearing:
    """A separate subscription that delivers to the mailboxes of the process.

    `alone` returns True if the process has no other subscription, which would log that the server is unreachable.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        channel: str,
        mail: Mailboxes,
        *,
        allow_eviction: bool,
        alone: Callable[[], bool] = _always,
    ) -> None:
        self._endpoint = endpoint
        self._channel = channel
        self._mail = mail
        self._allow_eviction = allow_eviction
        self._alone = alone

    async def run(self) -> None:
        """Receive messages until cancelled."""
        tries, complained = 0, False
        while True:
            ear, problem = _Ear(self._mail), None
            try:
                await self._listen(ear)
            except Exception as error:  # noqa: BLE001 - whatever it is, the waiters here receive nothing without this loop
                problem = error
            if ear.confirmed:
                tries, complained = 0, False
            unknown = unforeseen(problem)
            if problem is not None and not complained and (unknown is not None or self._alone()):
                complained = True
                log.warning("no wake-ups arrive until the connection is back: %s", problem, exc_info=unknown)
            tries += 1
            await asyncio.sleep(PING if ear.refused else backoff(tries))

    async def _listen(self, ear: _Ear) -> None:
        """Connect, and receive messages until the connection breaks."""
        opened = await opened_within(TIMEOUT, self._endpoint, [], self._allow_eviction)
        transport = opened.writer.transport
        loop = asyncio.get_running_loop()

        def moved() -> None:
            loop.call_soon_threadsafe(ear.connection_lost, None)

        self._endpoint.observers.add(moved)
        try:
            transport.set_protocol(ear)
            transport.write(pack("SUBSCRIBE", self._channel))
            while not (await asyncio.wait([ear.over], timeout=PING))[0]:
                if now() - ear.heard > SILENCE or opened.era != self._endpoint.era:
                    return
                transport.write(pack("PING"))
        finally:
            self._endpoint.observers.discard(moved)
            transport.abort()


class _Ear(asyncio.Protocol):
    """Receives the messages of such a connection."""

    def __init__(self, mail: Mailboxes) -> None:
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.heard: float = now()
        self.confirmed: bool = False
        self.refused: bool = False
        self._mail = mail
        self._parser = new_reader()

    def data_received(self, data: bytes) -> None:
        """Deliver the received messages."""
        self.heard = now()
        try:
            self._parser.feed(data)
            while (reply := self._parser.gets()) is not NOTHING:
                self._take(reply)
        except hiredis.HiredisError:
            self.connection_lost(None)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio names it
        """End after the connection is lost."""
        if not self.over.done():
            self.over.set_result(None)

    def _take(self, reply: Any) -> None:
        words = reply if isinstance(reply, list) else []
        if isinstance(reply, hiredis.ReplyError):
            # an error reply to a ping: the server is busy or loads its data, and still sends its messages
            if not self.confirmed:
                self.refused = True
                self.connection_lost(None)
        elif words[:1] == [b"message"] and len(words) == 3:
            self._mail.deliver(*split(words[2]))
        elif words[:1] == [b"subscribe"]:
            self.confirmed = True
            self._mail.wake_all()  # messages before the subscription were lost
