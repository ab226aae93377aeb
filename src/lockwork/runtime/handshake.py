"""Connections without TLS and without options: a handshake that does not import redis-py.

redis-py takes longer to import than the rest of Lockwork, and 10 MB. It does the handshake for all other connections,
and for a server that refuses ours: then it also names the error.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import hiredis

from lockwork.lazy import asyncio
from lockwork.runtime.resp import NOTHING, new_reader, pack

_OPTIONS: dict[str, type] = {"host": str, "port": int, "path": str, "db": int, "username": str, "password": str}
_READ_SIZE = 1 << 16
_UNNAMED = ("NOPERM", "ERR unknown", "ERR Unknown", "ERR wrong number", "ERR syntax")
"""Error replies of a server that takes no name of a library."""
_CLOSED = "Connection closed by server."


def is_plain(kind: str, options: Mapping[str, Any]) -> bool:
    """Return True if connections with these options need no redis-py."""
    return kind in ("redis", "unix") and all(type(value) is _OPTIONS.get(name) for name, value in options.items())


class _Greeting:
    """The commands of the handshake, and the check of their replies."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        commands = [pack("CLIENT", "SETINFO", "LIB-NAME", "lockwork")]
        user, password = options.get("username") or "", options.get("password") or ""
        self._named_at = 0
        if user or password:
            commands.insert(0, pack("AUTH", user, password) if user else pack("AUTH", password))
            self._named_at = 1
        if options.get("db"):
            commands.append(pack("SELECT", options["db"]))
        self.packed: bytes = b"".join(commands)
        self._count = len(commands)
        self._replies: list[object] = []
        self._is_unreadable = False
        """True if the server speaks another protocol."""
        self._reader = new_reader()

    def ended(self, data: bytes) -> bool:
        """Add received bytes; return True when the reply to each command has arrived."""
        if not data:
            if self.refused:  # the only reply, for instance that the server has too many clients
                return True
            raise ConnectionResetError(_CLOSED)
        try:
            self._reader.feed(data)
            while len(self._replies) < self._count and (reply := self._reader.gets()) is not NOTHING:
                self._replies.append(reply)
        except hiredis.HiredisError:
            self._is_unreadable = True
        return self._is_unreadable or len(self._replies) == self._count

    @property
    def refused(self) -> bool:
        """True if a reply is an error that the handshake of redis-py explains."""
        return self._is_unreadable or any(
            isinstance(reply, hiredis.ReplyError) and not (at == self._named_at and str(reply).startswith(_UNNAMED))
            for at, reply in enumerate(self._replies)
        )


class PlainConnection:
    """A blocking connection; `full` returns redis-py's connection to the same server."""

    def __init__(self, options: Mapping[str, Any], seconds: float, full: Callable[[], Any]) -> None:
        self._options = options
        self._seconds = seconds
        self._full = full
        self._other: Any = None
        """redis-py's connection, if it did the handshake."""
        self._sock: socket.socket | None = None

    def connect(self) -> None:
        """Connect and authenticate; raises OSError, or an exception of redis-py."""
        greeting = _Greeting(self._options)
        connected = self._sock = self._connected()
        try:
            connected.sendall(greeting.packed)
            while not greeting.ended(connected.recv(_READ_SIZE)):
                pass
        except TimeoutError as error:
            raise TimeoutError(f"Timeout reading from {_place(self._options)}") from error
        if greeting.refused:
            self.disconnect()
            self._other = self._full()
            self._other.connect()
            self._sock = self._other._sock  # noqa: SLF001 - redis-py has no public name for it

    def _connected(self) -> socket.socket:
        """Connect to the first address that answers."""
        problem: OSError | None = None
        try:
            if "path" in self._options:
                return self._connected_to(socket.AF_UNIX, socket.SOCK_STREAM, 0, "", self._options["path"])
            host, port = _host(self._options)
            for address in socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM):
                try:
                    return self._connected_to(*address)
                except OSError as error:
                    problem = error
            raise problem or OSError("socket.getaddrinfo returned no address")
        except TimeoutError as error:
            raise TimeoutError("Timeout connecting to server") from error
        except OSError as error:
            raise ConnectionError(_failed(error, self._options)) from error

    def _connected_to(self, family: int, kind: int, protocol: int, _name: str, address: Any) -> socket.socket:
        created = socket.socket(family, kind, protocol)
        try:
            if family != getattr(socket, "AF_UNIX", None):
                created.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                created.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            # a name may have two addresses with one unreachable: leave time for the other
            created.settimeout(self._seconds / 2)
            created.connect(address)
            created.settimeout(self._seconds)
        except BaseException:
            created.close()
            raise
        return created

    def disconnect(self) -> None:
        """Close the connection."""
        connected, self._sock = self._sock, None
        other, self._other = self._other, None
        if other is not None:
            other.disconnect()
        elif connected is not None:
            with contextlib.suppress(OSError):  # the server may have closed it
                connected.shutdown(socket.SHUT_RDWR)
            connected.close()

    def __del__(self) -> None:
        """Close the socket without a warning, as redis-py does, without a shutdown: a forked process may share it."""
        connected = getattr(self, "_sock", None)
        if connected is not None:
            connected.close()


class PlainAsyncConnection:
    """Async version of `PlainConnection`."""

    def __init__(self, options: Mapping[str, Any], full: Callable[[], Any]) -> None:
        self._options = options
        self._full = full
        self._other: Any = None
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def connect(self) -> None:
        """Connect and authenticate; raises OSError, or an exception of redis-py."""
        greeting = _Greeting(self._options)
        reader, writer = await self._connected()
        self._reader, self._writer = reader, writer
        writer.write(greeting.packed)
        while not greeting.ended(await reader.read(_READ_SIZE)):
            pass
        if greeting.refused:
            await self.disconnect()
            self._other = self._full()
            await self._other.connect()
            self._reader, self._writer = self._other._reader, self._other._writer  # noqa: SLF001 - as above

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            if "path" in self._options:
                return await asyncio.open_unix_connection(self._options["path"])
            host, port = _host(self._options)
            reader, writer = await asyncio.open_connection(host, port)
        except OSError as error:
            raise ConnectionError(_failed(error, self._options)) from error
        connected = writer.get_extra_info("socket")
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return reader, writer

    async def disconnect(self, *, nowait: bool = True) -> None:
        """Close the connection, without waiting."""
        writer, self._reader, self._writer = self._writer, None, None
        other, self._other = self._other, None
        if other is not None:
            await other.disconnect(nowait=nowait)
        elif writer is not None:
            writer.close()


def _host(options: Mapping[str, Any]) -> tuple[str, int]:
    return options.get("host", "localhost"), options.get("port", 6379)


def _place(options: Mapping[str, Any]) -> str:
    return str(options["path"]) if "path" in options else ":".join(map(str, _host(options)))


def _failed(error: OSError, options: Mapping[str, Any]) -> str:
    """Describe a failed attempt in redis-py's words."""
    reasons: Sequence[object] = error.args
    if len(reasons) < 2:
        return f"Error {reasons[0] if reasons else ''} connecting to {_place(options)}."
    return f"Error {reasons[0]} connecting to {_place(options)}. {reasons[1]}."
