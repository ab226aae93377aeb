"""Messages of a process on a Cluster: one connection per shard, with a sharded channel for each slot in use.

In addition, one connection has the channels of the process, which receive messages published on any node.
"""

from __future__ import annotations

import asyncio
import selectors
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from random import choice
from typing import Any

import hiredis

from lockwork.logs import Log
from lockwork.protocol.messages import split
from lockwork.runtime.clock import now
from lockwork.runtime.cluster import ClusterEndpoint
from lockwork.runtime.endpoint import Endpoint
from lockwork.runtime.pubsub import PING, SILENCE, PubSubConnection, refusal
from lockwork.runtime.shard_channels import ShardChannel, ShardChannels

log: Log = Log("lockwork")

_LATE = 1.0
"""Maximum seconds without a reply from a node; then the process asks other nodes if it still serves its slots."""
_AGAIN = 0.25
"""Seconds between two requests for the slots while some channel has no node."""


class ClusterSubscription:
    """The pub/sub connections of a process to the primaries; the engine maintains them like a single one."""

    def __init__(
        self,
        cluster: ClusterEndpoint,
        channels: ShardChannels,
        own: Iterable[str],
        deliver: Callable[[str, str], None],
        missed: Callable[[], None],
        selector: selectors.BaseSelector,
        ring: Callable[[], None],
        *,
        allow_eviction: bool,
    ) -> None:
        self.cluster: ClusterEndpoint = cluster
        self.channels: ShardChannels = channels
        self.deliver: Callable[[str, str], None] = deliver
        self.missed: Callable[[], None] = missed
        self._own = own
        """Channels of the process; more may be added."""
        self._selector = selector
        self._ring = ring
        self._allow_eviction = allow_eviction
        self._nodes: dict[Endpoint, _NodeSubscription] = {}
        self._home: Endpoint | None = None
        """The node where `_own` is subscribed."""
        self._places: dict[ShardChannel, Endpoint | None] = {}
        self._version = 0
        """Version of the slots in `_places`."""
        self._ask_at: float | None = None
        """Time of the next request for the slots; None if none is needed."""
        self.next_event: float | None = None

    def tend(self) -> None:
        """Subscribe new channels, drop unused ones, follow moved slots, and check the connections."""
        new, dropped = self.channels.taken()
        for channel in new:
            self._places[channel] = None
            self._place(channel)
        for channel in dropped:
            node = self._places.pop(channel)
            if node is not None and node in self._nodes:
                self._nodes[node].drop(channel.name)
        if self._version != self.cluster.version:
            self._version = self.cluster.version
            self._follow()
        self._settle()
        for subscription in list(self._nodes.values()):
            subscription.tend()
        self._ask_for_slots()
        times = [self.channels.next_event(), self._ask_at]
        for subscription in self._nodes.values():
            times += [subscription.next_event, subscription.late_at]
        self.next_event = min((at for at in times if at is not None), default=None)

    def close(self) -> None:
        """Close the connections."""
        for subscription in self._nodes.values():
            subscription.close()
        self._nodes.clear()

    def _follow(self) -> None:
        """Move each channel to the current node of its slot."""
        primaries = set(self.cluster.primaries())
        for node in [node for node in self._nodes if node not in primaries]:
            self._nodes.pop(node).close()
        for channel in self._places:
            self._place(channel)

    def _place(self, channel: ShardChannel) -> None:
        before, node = self._places[channel], self.cluster.owner(channel.slot)
        if before is not None and before is not node and before in self._nodes:
            self._nodes[before].drop(channel.name)
        self._places[channel] = node
        if node is not None:
            self._to(node).add(channel.name)

    def _settle(self) -> None:
        """Choose the node for the channels of the process; keep it while it is a primary and answers."""
        primaries = self.cluster.primaries()
        if self._home not in primaries or self._to(self._home).failing:
            here = [node for node in primaries if node in self._nodes and not self._nodes[node].failing]
            others = [node for node in primaries if node is not self._home]
            if self._home in self._nodes:
                for name in list(self._own):
                    self._nodes[self._home].drop(name)
            nodes = here or others or primaries
            self._home = choice(nodes) if nodes else None  # noqa: S311 - spreads load, hides nothing
        if self._home is not None:
            for name in list(self._own):
                self._to(self._home).add(name)

    def _to(self, node: Endpoint) -> _NodeSubscription:
        subscription = self._nodes.get(node)
        if subscription is None:
            subscription = self._nodes[node] = _NodeSubscription(
                self, node, self._selector, self._ring, allow_eviction=self._allow_eviction
            )
        return subscription

    def _ask_for_slots(self) -> None:
        """Refresh the slots if some are unknown or a node does not answer."""
        at = now()
        homeless = self._home is None or None in self._places.values()
        late = any(each.late_at is not None and each.late_at <= at for each in self._nodes.values())
        if not (self.cluster.stale or homeless or late):
            self._ask_at = None
        elif self._ask_at is None or self._ask_at <= at:
            self.cluster.refresh_soon()
            self._ask_at = at + (_AGAIN if self.cluster.stale or homeless else _LATE)


class _NodeSubscription(PubSubConnection):
    """The pub/sub connection to one node, with the channels to subscribe there."""

    def __init__(
        self,
        whole: ClusterSubscription,
        node: Endpoint,
        selector: selectors.BaseSelector,
        ring: Callable[[], None],
        *,
        allow_eviction: bool,
    ) -> None:
        super().__init__(node, selector, ring, allow_eviction=allow_eviction)
        self._whole = whole
        self._wanted: dict[str, None] = {}
        self._sent: deque[tuple[bytes, str]] = deque()
        """Commands that wait for a reply."""
        self._waits_since = 0.0
        """Time when the first of them was sent, or of the last reply."""
        self._plain = False
        """True if the server refuses sharded channels; it then publishes to the channels of processes."""

    @property
    def late_at(self) -> float | None:
        """Time when the pending reply is late; None without a pending reply."""
        return self._waits_since + _LATE if self._sent or self._dial is not None else None

    @property
    def failing(self) -> bool:
        """True if the connection broke more than once and is still down."""
        return self._tries > 1 and not self._wire.connected

    def add(self, name: str) -> None:
        """Subscribe to a channel, unless it is subscribed."""
        if name not in self._wanted:
            self._wanted[name] = None
            self._subscribe(name)

    def drop(self, name: str) -> None:
        """Unsubscribe from a channel."""
        if name in self._wanted:
            del self._wanted[name]
            self._command("SUNSUBSCRIBE" if _is_sharded(name) else "UNSUBSCRIBE", name)

    def tend(self) -> None:
        """Maintain the connection, and record requests for a new one."""
        dialing = self._dial is not None
        super().tend()
        if self._dial is not None and not dialing:
            self._waits_since = now()

    def _begin(self) -> None:
        self._plain = False
        for name in list(self._wanted):
            self._subscribe(name)
        self.next_event = now() + PING

    def _subscribe(self, name: str) -> None:
        if not _is_sharded(name):
            self._command("SUBSCRIBE", name)
        elif not self._plain:
            self._command("SSUBSCRIBE", name)

    def _send(self, *command: str) -> None:
        self._command(*command)

    def _command(self, verb: str, name: str = "") -> None:
        if not self._wire.connected:
            return
        if not self._sent:
            self._waits_since = now()
        self._sent.append((verb.lower().encode(), name))
        super()._send(verb, *([name] if name else []))

    def _take(self, reply: Any) -> bool:
        words = [word for word in reply if isinstance(word, bytes)] if isinstance(reply, list) else []
        if words[:1] in ([b"smessage"], [b"message"]):
            if len(words) == 3:
                self._whole.deliver(*split(words[2]))
            return True
        request = self._sent[0] if self._sent else (b"", "")
        if isinstance(reply, hiredis.ReplyError):
            self._answered()
            self._refused(request, str(reply))
            return True
        verb, name = (words[0], words[1].decode(errors="replace")) if len(words) > 1 else (b"pong", "")
        if request == (verb, name) or (verb == b"pong" and request[0] == b"ping"):
            self._answered()
        elif verb == b"sunsubscribe" and self._wanted.pop(name, self) is None:
            # the node dropped the channel without a request: the slot has moved, or the node is now a replica
            self._whole.cluster.doubt(self._endpoint)
        if verb == b"ssubscribe":
            self._confirm()
            self._whole.channels.confirmed(name)
        elif verb == b"subscribe":
            self._confirm()
            self._whole.missed()  # messages before the subscription were lost
        return True

    def _answered(self) -> None:
        if self._sent:
            self._sent.popleft()
        self._waits_since = now()

    def _refused(self, asked: tuple[bytes, str], why: str) -> None:
        verb, name = asked
        if verb not in (b"ssubscribe", b"subscribe"):
            return  # an error reply to a ping: the server is busy or loads its data, and still sends its messages
        if why.startswith(("MOVED", "ASK", "CLUSTERDOWN", "TRYAGAIN", "LOADING")):
            self._wanted.pop(name, None)
            self._whole.cluster.doubt(self._endpoint if why.startswith("MOVED") else None)
            return
        # before Redis 7, or without permission: the scripts then publish to the channels of processes
        self._plain = self._plain or verb == b"ssubscribe"
        if "unknown command" not in why and now() - self._warned > SILENCE:
            self._warned = now()
            log.warning("no wake-ups arrive: %s", refusal(why, name))

    def _broken(self, why: object) -> None:
        self._sent.clear()
        self._whole.cluster.doubt()
        super()._broken(why)


class ShardHearing:
    """Messages of a worker process about its queues, through the engine's connections, while `run` runs."""

    def __init__(
        self,
        channel: str,
        places: Sequence[tuple[str, str]],
        own: dict[str, None],
        channels: ShardChannels,
        listen: Callable[[], None],
    ) -> None:
        self._channel = channel
        self._places = places
        """Sharded channels, with the tickets of their waiters."""
        self._own = own
        self._channels = channels
        self._listen = listen

    async def run(self) -> None:
        """Receive messages until cancelled."""
        self._own[self._channel] = None
        for name, ticket in self._places:
            self._channels.enter(name, ticket)
        self._listen()
        try:
            await asyncio.Event().wait()
        finally:
            for name, ticket in self._places:
                self._channels.leave(name, ticket)


def _is_sharded(name: str) -> bool:
    return name.endswith("}")
