"""A primary behind Sentinels, which return its address before each connection and announce failovers.

Client rules: https://redis.io/docs/latest/develop/reference/sentinel-clients/.
"""

from __future__ import annotations

import contextlib
import re
import selectors
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote

import hiredis

from lockwork.errors import ConfigError, ServerRefused
from lockwork.lazy import asyncio
from lockwork.logs import Log
from lockwork.runtime.clock import now
from lockwork.runtime.endpoint import Endpoint, Opener, taken_over
from lockwork.runtime.pubsub import PING, SILENCE
from lockwork.runtime.reentry import entered_once, new_lock
from lockwork.runtime.replies import Retry
from lockwork.runtime.resp import pack
from lockwork.runtime.sync_connection import Wire
from lockwork.runtime.trying import backoff

log: Log = Log("lockwork")

ANSWER = 0.5
"""Time limit in seconds for a Sentinel's answer."""
_SWITCHED = "+switch-master"


class Address(NamedTuple):
    """Address of the primary since the Sentinels' election with that number."""

    epoch: int
    host: str
    port: int
    quorum: int
    """Number of Sentinels that must agree that the primary is down."""


class Sentinels:
    """The Sentinels that watch one primary; `service` is the primary's name there."""

    def __init__(self, sentinels: Sequence[Endpoint], service: str) -> None:
        self.service: str = service
        self.shown: str = ",".join(map(_place, sentinels))
        self._sentinels = list(sentinels)
        self._silent: set[Endpoint] = set()
        """Sentinels that did not answer the last time."""
        self._complete = True
        """True if a majority answered the last time."""
        self._trusted = False
        """True if a quorum has answered once."""

    def primary(self) -> Address:
        """Ask until a majority has answered, or all were called; the newest election wins.

        Raises Retry if none answers, or too few at the start, ConfigError if they do not know the primary, and
        ServerRefused for a wrong or missing password.
        """
        addresses: list[Address] = []
        answers, problem = 0, ""
        for sentinel in self._in_order():
            try:
                address = self._ask(sentinel)
            except Retry as error:
                self._silent.add(sentinel)
                problem = str(error)
                continue
            self._silent.discard(sentinel)
            answers += 1
            if address is not None:
                addresses.append(address)
            if answers > len(self._sentinels) // 2:
                break
        if addresses and not self._trusted:
            self._check_quorum(answers, max(addresses).quorum, problem)
        majority = answers > len(self._sentinels) // 2
        if addresses and self._complete and not majority:
            log.warning(
                "only %d of the %d Sentinels at %s answer: they cannot agree on a failover, and the primary that they "
                "name may be an old one", answers, len(self._sentinels), self.shown,
            )  # fmt: skip
        self._complete = majority
        if addresses:
            return max(addresses)
        if answers:
            raise ConfigError(f"the Sentinels at {self.shown} watch no primary named {self.service!r}{self._names()}")
        raise Retry(f"none of the Sentinels at {self.shown} answers; the last one: {problem}")

    def _check_quorum(self, answers: int, quorum: int, problem: str) -> None:
        """Raise Retry if the Sentinels that answer may be partitioned from the others and name an old primary."""
        if answers < min(quorum, len(self._sentinels)):
            raise Retry(
                f"only {answers} of the {len(self._sentinels)} Sentinels at {self.shown} answer, and {quorum} must "
                f"agree on which server is the primary; the last silent one: {problem}"
            )
        self._trusted = True

    @contextlib.contextmanager
    def subscribed(self) -> Iterator[Wire]:
        """Subscribe to one Sentinel, which is also the first to call meanwhile; the next subscription uses another.

        The other Sentinels may learn of an election after that one has announced it. Raises Retry or a LockworkError.
        """
        sentinel = self._in_order()[0]
        others = [each for each in self._sentinels if each is not sentinel]
        self._sentinels = [sentinel, *others]
        try:
            with _connected(sentinel) as wire:
                wire.send(pack("SUBSCRIBE", _SWITCHED))
                wire.limit(0)
                yield wire
        finally:
            self._sentinels = [*others, sentinel]

    def _in_order(self) -> list[Endpoint]:
        return sorted(self._sentinels, key=self._silent.__contains__)

    def _ask(self, sentinel: Endpoint) -> Address | None:
        with _connected(sentinel) as wire:
            reply = wire.request(pack("SENTINEL", "MASTER", self.service))
        if not isinstance(reply, hiredis.ReplyError):
            facts = dict(zip(reply[::2], reply[1::2], strict=True))
            return Address(
                int(facts[b"config-epoch"]), facts[b"ip"].decode(), int(facts[b"port"]), int(facts[b"quorum"])
            )
        message = str(reply)
        if "No such master" in message:
            return None
        if message.startswith(("NOAUTH", "NOPERM")):
            raise _refused(sentinel, message)
        raise ConfigError(f"the server at {_place(sentinel)} is no Sentinel ({message}): check the URL")

    def _names(self) -> str:
        """List the names of the known primaries."""
        for sentinel in self._in_order():
            with contextlib.suppress(Retry), _connected(sentinel) as wire:
                replies: list[list[bytes]] = wire.request(pack("SENTINEL", "MASTERS"))
                # each reply is a list of pairs that starts with the name
                names = sorted(reply[1].decode() for reply in replies)
                return f": they watch {', '.join(names)}" if names else ": they watch none"
        return ""


def _place(sentinel: Endpoint) -> str:
    return f"{sentinel.options['host']}:{sentinel.options['port']}"


def _refused(sentinel: Endpoint, why: object) -> ServerRefused:
    return ServerRefused(
        f"the Sentinel at {_place(sentinel)} refuses us ({why}): give its user and password as "
        "?sentinel_username=...&sentinel_password=... in the URL"
    )


@contextlib.contextmanager
def _connected(sentinel: Endpoint) -> Iterator[Wire]:
    wire = Wire(sentinel, ANSWER)
    try:
        try:
            wire.connect()
        except ServerRefused as error:
            raise _refused(sentinel, error.__cause__) from error
        wire.limit(ANSWER)
        yield wire
    finally:
        wire.close()


class SentinelEndpoint(Endpoint):
    """The primary that Sentinels name; `close` ends the thread that watches them."""

    def __init__(self, kind: str, options: dict[str, Any], sentinels: Sentinels) -> None:
        super().__init__(kind, options)
        self.shown: str = f"{kind}+sentinel://{sentinels.shown}/{sentinels.service}/{options.get('db', 0)}"
        self.described: str = f"the primary {sentinels.service!r} of the Sentinels at {sentinels.shown}"
        self._sentinels = sentinels
        self._address: Address | None = None
        self._lock = new_lock()
        self._watch: _Watch | None = None
        self._closed = False

    @property
    def found(self) -> str:
        """Address of the primary, as a sentence."""
        address = self._address
        return f"the primary is at {address.host}:{address.port}" if address is not None else ""

    def locate(self) -> None:
        """Ask the Sentinels for the address of the next connection; raises Retry or a LockworkError."""
        self._found(self._sentinels.primary())
        with entered_once(self._lock):
            # in a forked child, the parent's thread does not run
            if not self._closed and (self._watch is None or not self._watch.alive):
                self._watch = _Watch(self._sentinels, self._update)

    async def alocate(self) -> None:
        """Async version of `locate`."""
        await asyncio.to_thread(self.locate)

    def close(self) -> None:
        """Stop watching the Sentinels."""
        with entered_once(self._lock):
            self._closed = True
            watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()

    def _update(self) -> None:
        with contextlib.suppress(Exception):  # the next connection asks again, and raises the error
            self._found(self._sentinels.primary())

    def _found(self, address: Address) -> None:
        with self._lock:
            before, self._address = self._address, address
            self.options: dict[str, Any] = {**self.options, "host": address.host, "port": address.port}
        if before is not None and before[1:3] != address[1:3]:
            log.warning("the primary %r is at %s:%d now", self._sentinels.service, address.host, address.port)
            self.moved()


class _Watch:
    """A thread that subscribes to one Sentinel at a time, and checks the primary's address after a failover."""

    def __init__(self, sentinels: Sentinels, update: Callable[[], None]) -> None:
        self._sentinels = sentinels
        self._update = update
        self._receiver, self._sender = socket.socketpair()
        self._thread = threading.Thread(target=self._main, name="lockwork-sentinel", daemon=True)
        with contextlib.suppress(RuntimeError):  # no more threads, for instance at the interpreter's exit
            self._thread.start()

    @property
    def alive(self) -> bool:
        """True if the thread runs in this process."""
        return self._thread.is_alive()

    def close(self) -> None:
        """End the thread."""
        self._sender.close()
        if self._thread.is_alive():
            self._thread.join()
        self._receiver.close()

    def _main(self) -> None:
        tries = 0
        while not self._ended_within(backoff(tries) if tries else 0):
            tries += 1
            with contextlib.suppress(Exception), self._sentinels.subscribed() as wire:
                self._update()  # earlier announcements were lost
                last_reply = pinged = now()
                while (at := now()) - last_reply < SILENCE:
                    if at - pinged >= PING:
                        wire.send(pack("PING"))
                        pinged = at
                    if self._ended_within(pinged + PING - at, wire):
                        return
                    for reply in wire.arrived():
                        tries, last_reply = 0, now()
                        # only a hint: this Sentinel may be behind the others
                        if isinstance(reply, list) and reply[0] == b"message":
                            self._update()

    def _ended_within(self, seconds: float, *others: Wire) -> bool:
        """Wait until `close` is called, or until one of the others is readable; return True after `close`."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._receiver, selectors.EVENT_READ)
            for other in others:
                selector.register(other, selectors.EVENT_READ)
            return any(key.fileobj is self._receiver for key, _ in selector.select(seconds))


_SCHEMES = {"redis+sentinel": "redis", "rediss+sentinel": "rediss"}
_PORT = 26379


def from_url(url: object) -> Opener | None:
    """Parse redis+sentinel://user:password@host:26379,host:26379/service/0; return None for another scheme.

    `sentinel_username` and `sentinel_password` in the query are for the Sentinels. Raises ConfigError.
    """
    scheme, _, rest = url.partition("://") if isinstance(url, str) else ("", "", "")
    kind = _SCHEMES.get(scheme.lower())
    if kind is None:
        return None
    shape = f"{scheme}://user:password@host:{_PORT},host:{_PORT}/primary's name/0"
    place, _, query = rest.partition("?")
    user, at, place = place.rpartition("@")
    hosts, _, path = place.partition("/")
    service, _, database = path.partition("/")
    if not all(hosts.split(",")) or not service:
        raise ConfigError(f"a URL of Sentinels names them and the primary that they watch: {shape}")
    if database and not database.isdecimal():
        raise ConfigError(f"the database in a URL of Sentinels, after the last slash, must be a number: {shape}")
    pairs = [pair for pair in query.split("&") if pair]
    own = [pair.removeprefix("sentinel_") for pair in pairs if pair.startswith("sentinel_")]
    if any(pair.partition("=")[0] not in ("username", "password") for pair in own):
        raise ConfigError(
            "a URL of Sentinels has sentinel_username= and sentinel_password= and no other sentinel_ option"
        )
    others = [pair for pair in pairs if not pair.startswith("sentinel_")]
    options = Endpoint.from_url(f"{kind}://{user}{at}localhost/{database or 0}?{'&'.join(others)}").options
    shared = [pair for pair in others if pair.startswith("ssl_")]
    sentinels = [
        Endpoint.from_url(f"{kind}://{_with_port(host)}?{'&'.join([*own, *shared])}") for host in hosts.split(",")
    ]
    name = unquote(service)
    return _opener(kind, options, sentinels, name)


def _with_port(host: str) -> str:
    return host if re.search(r":[^\]:]*$", host) else f"{host}:{_PORT}"


def from_client(client: object) -> Opener | None:
    """Connect like a client of `Sentinel.master_for`; None for another client, ConfigError for a replica's client."""
    from redis.asyncio.sentinel import SentinelManagedConnection as AsyncManaged  # noqa: PLC0415 - see handshake.py
    from redis.asyncio.sentinel import SentinelManagedSSLConnection as AsyncManagedSSL  # noqa: PLC0415 - as above
    from redis.sentinel import SentinelManagedConnection, SentinelManagedSSLConnection  # noqa: PLC0415 - as above

    kinds: dict[object, str] = {
        SentinelManagedConnection: "redis",
        SentinelManagedSSLConnection: "rediss",
        AsyncManaged: "redis",
        AsyncManagedSSL: "rediss",
    }
    pool: Any = getattr(client, "connection_pool", None)
    kind = kinds.get(getattr(pool, "connection_class", None))
    if kind is None:
        return None
    if not pool.is_master:
        raise ConfigError("client is one of a replica (slave_for): give one of the primary (master_for)")
    sentinels = [Endpoint.from_client(each) for each in pool.sentinel_manager.sentinels]
    options = taken_over(pool.connection_kwargs)
    return _opener(kind, options, sentinels, pool.service_name)


def _opener(kind: str, options: dict[str, Any], sentinels: Sequence[Endpoint], service: str) -> Opener:
    def opened() -> tuple[Endpoint, Callable[[], None]]:
        endpoint = SentinelEndpoint(kind, options, Sentinels(sentinels, service))
        return endpoint, endpoint.close

    return opened
