"""One blocking connection: after the handshake, calls go over its socket with hiredis alone.

redis-py's own calls cost more than the server's answer on loopback, and repeat commands on their own; ours do neither.
"""

from __future__ import annotations

import contextlib
import socket
from typing import Any, NoReturn

import hiredis

from lockwork.protocol.effects import Call
from lockwork.runtime.call_errors import raise_call_error
from lockwork.runtime.clock import now
from lockwork.runtime.endpoint import ASK, COMMANDS, TIMEOUT, Endpoint, Identity, check, end
from lockwork.runtime.replies import Retry, foreseen, ignoring, is_interrupt, raise_connecting
from lockwork.runtime.resp import LARGE, NOTHING, new_reader, pack_ahead, pack_call, pack_function_call, unacknowledged

_READ_SIZE = 65536


class Wire:
    """A connection for one caller at a time."""

    def __init__(self, endpoint: Endpoint, timeout: float = TIMEOUT) -> None:
        self._endpoint = endpoint
        self._timeout = timeout
        self._connection: Any = None
        self._socket: socket.socket | None = None
        self._reader = new_reader()
        self.plain: bool = True
        """True without TLS: one thread may read while another one writes."""
        self._partial: tuple[type[OSError], ...] = (BlockingIOError,)
        """Errors of a read before the next bytes, or the rest of a TLS record, have arrived."""
        self._outgoing = 0
        """Bytes of a large command that were still unsent at the last check."""
        self.identity: Identity | None = None
        self.era: int = 0
        """Era of the reached server: see Endpoint."""
        self.since: float = 0.0
        """Time of opening, on the client's clock."""
        self.used: float = 0.0
        """Time of the end of its last use in a pool."""

    def connect(self) -> None:
        """Connect and authenticate; raises only Retry or a LockworkError."""
        self._endpoint.locate()
        connection = self._endpoint.connection(self._timeout)
        try:
            connection.connect()
        except BaseException as error:
            connection.disconnect()
            if isinstance(error, Exception):
                raise_connecting(error, self._endpoint.shown)
            raise
        self._connection = connection
        self._socket = connection._sock  # noqa: SLF001 - redis-py has no public name for it
        self._reader = new_reader()
        self.plain = not self._endpoint.tls
        if not self.plain:
            import ssl  # noqa: PLC0415 - loaded already

            self._partial = (BlockingIOError, ssl.SSLWantReadError)

    def inspect(self, *, allow_eviction: bool) -> None:
        """Refuse a server that would lose locks or jobs."""
        self.identity = None
        self.send(ASK)
        replies = [self.receive() for _ in COMMANDS]
        self.identity = check(replies, self._endpoint, allow_eviction=allow_eviction)
        self.since = now()
        self.era = self._endpoint.reached(None if self.identity is None else self.identity.run)

    def end(self, gone: Identity) -> None:
        """End another of this process's connections, if the server is still the same."""
        if self.identity is not None and self.identity.run == gone.run:
            self.request(end(gone))

    def run(self, call: Call, *, whole: bool) -> Any:
        """Run a script and return its reply; raises NoScript, or Retry when the outcome is unknown."""
        self.send(self.pack(call, whole=whole))
        if call.ahead is not None:
            pack_ahead(call)
        return self.answer(call)

    def pack(self, call: Call, *, whole: bool) -> bytes:
        """Encode a call for this connection."""
        if self._endpoint.by_function and call.script.declared.no_writes:
            return pack_function_call(call)
        return pack_call(call if self.identity is not None else call.unguarded(), whole=whole)

    def answer(self, call: Call) -> Any:
        """Wait for the reply to a sent call; raises the exceptions of `run`."""
        reply = self.receive()
        if isinstance(reply, hiredis.ReplyError):
            raise_call_error(self._endpoint, call, str(reply))
        return reply

    def request(self, packed: bytes) -> Any:
        """Send one command and wait for its reply."""
        self.send(packed)
        return self.receive()

    def send(self, packed: bytes) -> None:
        """Send a command."""
        assert self._socket is not None
        try:
            self._outgoing = 0
            if len(packed) <= LARGE:
                self._socket.sendall(packed)
            else:
                self._send_slowly(memoryview(packed))
        except OSError as error:
            self._fail(error)

    def _fail(self, error: Exception) -> NoReturn:
        """Close the connection, and raise Retry."""
        self.close()
        if is_interrupt(error):
            raise error
        raise Retry(f"the connection to {self._endpoint.shown} broke: {error}") from error

    def _send_slowly(self, packed: memoryview) -> None:
        """Send a large command with the time limit per part, because `sendall` would limit the whole."""
        assert self._socket is not None
        while packed:
            packed = packed[self._socket.send(packed[: 4 * LARGE]) :]
        self._outgoing = unacknowledged(self._socket.fileno())

    def _read(self) -> bytes:
        """Read the next bytes; the time limit restarts while a large command is still being sent."""
        assert self._socket is not None
        while True:
            try:
                return self._socket.recv(_READ_SIZE)
            except TimeoutError as error:
                before, self._outgoing = self._outgoing, self._outgoing and unacknowledged(self._socket.fileno())
                if self._outgoing >= before or is_interrupt(error):
                    raise

    def receive(self) -> Any:
        """Wait for the next reply."""
        assert self._socket is not None
        try:
            while True:
                reply = self._reader.gets()
                if reply is not NOTHING:
                    return reply
                data = self._read()
                if not data:
                    raise ConnectionResetError("closed by the server")
                self._reader.feed(data)
        except (OSError, hiredis.HiredisError) as error:
            self._fail(error)

    def arrived(self) -> list[Any]:
        """Return the replies that arrived, after the socket became readable."""
        connection = self._socket
        if connection is None:
            raise Retry(f"the connection to {self._endpoint.shown} was closed")
        try:
            try:
                data = connection.recv(_READ_SIZE)
                if not data:
                    raise ConnectionResetError("closed by the server")
                self._reader.feed(data)
            except self._partial:  # part of a TLS record
                pass
            return list(iter(self._reader.gets, NOTHING))
        except (OSError, hiredis.HiredisError) as error:
            self._fail(error)

    def limit(self, seconds: float) -> None:
        """Set the time limit of further waits for the server."""
        if seconds != self._timeout:
            self._timeout = seconds
            if self._socket is not None:
                self._socket.settimeout(seconds)

    def interrupt(self) -> None:
        """Make the thread that waits for a reply raise Retry; called on another thread."""
        connection = self._socket
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def fileno(self) -> int:
        """Return the socket's descriptor, for a selector; -1 when closed."""
        return -1 if self._socket is None else self._socket.fileno()

    @property
    def connected(self) -> bool:
        """True if the connection may be used."""
        return self._socket is not None

    def close(self) -> None:
        """Close the connection."""
        self._socket = None
        if self._connection is not None:
            connection, self._connection = self._connection, None
            with ignoring(*foreseen()):
                connection.disconnect()
