"""A Redis or Valkey Cluster: the map of slots to nodes, and its refresh after changes.

The rules for clients: https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from typing import Any

import hiredis
from msgspec.structs import replace

from lockwork.errors import ConfigError, LockworkError, ServerRefused, ServerUnsuitable
from lockwork.lazy import asyncio
from lockwork.protocol import scripts, slots
from lockwork.protocol.effects import Call
from lockwork.runtime.clock import now
from lockwork.runtime.endpoint import Endpoint, Opener, taken_over
from lockwork.runtime.reentry import entered_once, new_lock
from lockwork.runtime.replies import Busy, Moved, Retry
from lockwork.runtime.resp import pack
from lockwork.runtime.sync_connection import Wire
from lockwork.words import several

Place = tuple[str, int]

_ANSWER = 0.5
"""Time limit in seconds for a node to return the slots."""
_REST = 0.2
"""Minimum seconds between two requests for the slots: during a failover, every call would send one."""


class _NoSlots(Retry):
    """A node reports that no node serves slots."""

    sent = False


class ClusterEndpoint(Endpoint):
    """All nodes of a Cluster. As a single endpoint it leads to any primary, which suffices to receive messages."""

    cluster = True

    def __init__(self, kind: str, options: dict[str, Any], seeds: Sequence[Place]) -> None:
        super().__init__(kind, options)
        self._given = options
        self._seeds = list(seeds)
        hosts = ",".join(f"{host}:{port}" for host, port in seeds)
        self.shown: str = f"{kind}+cluster://{hosts}"
        self.described: str = f"the Cluster at {hosts}"
        self._nodes: dict[Place, Endpoint] = {}
        self._slots: list[Endpoint | None] = [None] * slots.SLOTS
        self._primaries: list[Endpoint] = []
        self._lock = new_lock()
        self._asked = 0.0
        self._turn = 0
        self._suspect: Endpoint | None = None
        """The node that redirected a call: it is the first to ask for the slots."""
        self._silent: set[Endpoint] = set()
        """Nodes that did not answer the last time: they come last."""
        self._refreshing: threading.Thread | None = None
        self.stale: bool = True
        self.version: int = 0
        """Number that rises with each new map of slots; the observers are then called."""

    @property
    def as_cluster(self) -> ClusterEndpoint:
        """This Cluster."""
        return self

    def shards(self) -> int:
        """Return the number of primaries."""
        return len(self._primaries)

    @property
    def found(self) -> str:
        """Return the number of shards, as a sentence."""
        return f"the Cluster has {several(len(self._primaries), 'shard')}" if self._primaries else ""

    def slot(self, key: str) -> int:
        """Return the slot of a key."""
        return slots.of_key(key)

    def owner(self, slot: int) -> Endpoint | None:
        """Return the primary of a slot, if known."""
        return self._slots[slot]

    def primaries(self) -> list[Endpoint]:
        """Return the known nodes that serve slots."""
        return self._primaries

    def doubt(self, node: Endpoint | None = None) -> None:
        """Record that a slot may have moved; `node` reported it, and is the first to ask."""
        self._suspect, self.stale = node, True

    def route(self, call: Call) -> Endpoint:
        """Return the known node for a call; raises Retry if no node serves its slot."""
        if not call.keys:
            # a shard may disappear while a caller iterates over all
            return self._primaries[min(call.shard, len(self._primaries) - 1)]
        key = call.keys[0]
        number = slots.of_key(key)
        node = self._slots[number]
        if node is None:
            self.stale = True
            unserved = Retry(f"no node of the Cluster at {self.shown} serves slot {number}, in which {key} lies")
            unserved.sent = False
            raise unserved
        return node

    def prepare(self, call: Call) -> Call:
        """Return the call with the script in its form for a Cluster node."""
        return replace(call, script=scripts.on_cluster(call.script.name), packed=None)

    def moved_slot(self, moved: Moved) -> Endpoint:
        """Record the slot's node from a redirection; return that node."""
        host = moved.host or self._primaries[0].options["host"]
        with self._lock:
            node = self._node((host, moved.port))
            is_current = moved.once or self._slots[moved.slot] is node
            if not is_current:
                self._slots[moved.slot] = node
                self.stale = self.stale or node not in self._primaries
        if not is_current:
            self._announce()
        return node

    def failed(self, error: Retry) -> Moved | None:
        """Record the reason of a failed call, because slots may have moved; return its redirection, if any."""
        if isinstance(error, Moved):
            return error
        if "CLUSTERDOWN" in str(error) and (unserved := self._unserved()):
            error.args = (f"{error}; no node serves {unserved}",)
        self.stale = self.stale or not isinstance(error, Busy)
        return None

    def _unserved(self) -> str:
        """Name the slots that no node is known to serve; empty if there are none."""
        free = [number for number, node in enumerate(self._slots) if node is None]
        if not self._primaries or not free:
            return ""
        return f"slot {free[0]}" if len(free) == 1 else f"{len(free)} slots, of which {free[0]} is the first"

    def refresh(self, *, anyway: bool = False) -> None:
        """Ask the nodes for the slots, one after the other; raises Retry if none answers, or ServerUnsuitable.

        anyway: even without a sign that slots have moved.
        """
        with entered_once(self._lock):
            if not (self.stale or anyway) or (self._primaries and now() - self._asked < _REST):
                return
            self._asked = now()
            answered, problem = False, None
            first, self._suspect = [self._suspect] if self._suspect is not None else [], None
            others = dict.fromkeys((*self._primaries, *map(self._node, self._seeds), *self._nodes.values()))
            for node in [*first, *sorted(others, key=self._silent.__contains__)]:
                try:
                    self._read(node, self._ask(node))
                except Retry as error:
                    self._silent.add(node)
                    problem = error
                else:
                    self._silent.discard(node)
                    answered, self.stale = True, False
                    break
        if answered:
            self._announce()
            return
        if isinstance(problem, _NoSlots):
            raise problem
        away = Retry(f"no node of the Cluster at {self.shown} answers; the last one: {problem}")
        away.sent = False
        raise away

    async def arefresh(self) -> None:
        """Async version of `refresh`."""
        await asyncio.to_thread(self.refresh)

    def refresh_soon(self) -> None:
        """Refresh on a separate thread, unless a refresh runs; the observers are called when it is done."""
        if self._refreshing is None or not self._refreshing.is_alive():
            self._refreshing = threading.Thread(target=self._refresh_quietly, name="lockwork-slots", daemon=True)
            with contextlib.suppress(RuntimeError):  # no more threads, for instance at the interpreter's exit
                self._refreshing.start()

    def _refresh_quietly(self) -> None:
        with contextlib.suppress(Retry, LockworkError):  # each call also refreshes, and raises the error
            self.refresh(anyway=True)

    def locate(self) -> None:
        """Choose a primary for the next connection to the Cluster as a whole, a different one each time."""
        self.refresh()
        with self._lock:
            self._turn += 1
            node = self._primaries[self._turn % len(self._primaries)]
            self.options: dict[str, Any] = {**self.options, "host": node.options["host"], "port": node.options["port"]}

    async def alocate(self) -> None:
        """Async version of `locate`."""
        await asyncio.to_thread(self.locate)

    def after_fork(self) -> None:
        """Replace the locks in a forked child: a thread that exists only in the parent may hold one."""
        self._lock = new_lock()
        self._refreshing = None

    def _announce(self) -> None:
        self.version += 1
        for notify in list(self.observers):
            with contextlib.suppress(RuntimeError):  # the observer's event loop is closed
                notify()

    def _node(self, place: Place) -> Endpoint:
        node = self._nodes.get(place)
        if node is None:
            node = self._nodes[place] = Endpoint(self._kind, {**self._given, "host": place[0], "port": place[1]})
            node.cluster = True
        return node

    def _ask(self, node: Endpoint) -> list[Any]:
        wire = Wire(node, _ANSWER)
        try:
            wire.connect()
            wire.limit(_ANSWER)
            reply = wire.request(pack("CLUSTER", "SLOTS"))
        finally:
            wire.close()
        if isinstance(reply, hiredis.ReplyError):
            if "cluster support disabled" in str(reply):
                raise ServerUnsuitable(f"the server at {node.shown} is no node of a Cluster: use a redis:// URL")
            if "unknown command" in str(reply):
                raise ServerUnsuitable(
                    f"the server at {node.shown} does not know CLUSTER SLOTS: it is a Sentinel (use "
                    "redis+sentinel://), or withholds the command (use redis://)"
                )
            if str(reply).startswith("NOPERM"):
                raise ServerRefused(
                    f"the server at {node.shown} does not let this user ask for the slots ({reply}): set the rules "
                    "that `lockwork acl ROLE --cluster` prints"
                )
            raise Retry(f"the server at {node.shown} answers {str(reply)!r}")
        return list(reply)

    def _read(self, asked: Endpoint, ranges: list[Any]) -> None:
        owners: list[Endpoint | None] = [None] * slots.SLOTS
        primaries: dict[Endpoint, None] = {}
        for first, last, primary, *_ in ranges:
            # a node that does not know its own address sends an empty one
            node = self._node((primary[0].decode() if primary[0] else asked.options["host"], primary[1]))
            primaries[node] = None
            owners[first : last + 1] = [node] * (last + 1 - first)
        if not primaries:
            raise _NoSlots(f"the node at {asked.shown} knows of no node that serves slots: create the Cluster first")
        self._slots, self._primaries = owners, list(primaries)
        current_nodes = {*self._primaries, *(self._nodes[place] for place in self._seeds)}
        for place, node in list(self._nodes.items()):
            if node not in current_nodes:
                del self._nodes[place]
                self._silent.discard(node)
                node.moved()  # its connections are closed at their next use


_SCHEMES = {"redis+cluster": "redis", "rediss+cluster": "rediss"}


def from_url(url: object) -> Opener | None:
    """Parse redis+cluster://user:password@host:port,host:port; return None for another scheme. Raises ConfigError."""
    scheme, _, rest = url.partition("://") if isinstance(url, str) else ("", "", "")
    kind = _SCHEMES.get(scheme.lower())
    if kind is None:
        return None
    place, _, query = rest.partition("?")
    user, at, place = place.rpartition("@")
    hosts, _, database = place.partition("/")
    if not all(hosts.split(",")):
        raise ConfigError(f"a URL of a Cluster names some of its nodes: {scheme}://user:password@host:7000,host:7001")
    if database and not database.isdecimal():
        raise ConfigError("the database in the URL of a Cluster, after the last slash, must be a number")
    each = [
        Endpoint.from_url(f"{kind}://{user}{at}{host}/{database or 0}?{query}").options for host in hosts.split(",")
    ]
    seeds = [(str(options["host"]), int(options.get("port", 6379))) for options in each]
    return _opener(kind, each[0], seeds)


def from_client(client: object) -> Opener | None:
    """Connect like a client of redis-py's RedisCluster; return None for another client."""
    from redis.asyncio.cluster import RedisCluster as AsyncRedisCluster  # noqa: PLC0415 - see handshake.py
    from redis.cluster import RedisCluster  # noqa: PLC0415 - see handshake.py

    if not isinstance(client, RedisCluster | AsyncRedisCluster):
        return None
    manager: Any = client.nodes_manager
    seeds = [(node.host, int(node.port)) for node in manager.startup_nodes.values()]
    options = manager.connection_kwargs if isinstance(client, RedisCluster) else client.connection_kwargs
    secure = any(key.startswith("ssl_") for key in options) or bool(options.get("ssl"))
    return _opener("rediss" if secure else "redis", taken_over(options), seeds)


def _opener(kind: str, options: dict[str, Any], seeds: Sequence[Place]) -> Opener:
    return lambda: (ClusterEndpoint(kind, options, seeds), lambda: None)
