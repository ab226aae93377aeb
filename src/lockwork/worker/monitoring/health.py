"""Health: a small HTTP server for probes and metrics; /livez does not depend on the Redis server, /readyz does."""

from __future__ import annotations

import contextlib
import io
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from lockwork.errors import ConfigError
from lockwork.runtime.clock import now
from lockwork.worker.monitoring.metrics import Metrics
from lockwork.worker.supervisor.status import WorkerStatus

_AT_ONCE = 64
"""Maximum open connections; a new one ends the oldest that waits for its client."""
_GRACE = 0.1
"""Minimum seconds that a new connection stays open when others need its place."""
_SCRAPES_AT_ONCE = 8
"""Maximum concurrent scrapes: they may wait for the server, and probes must not wait for them."""
_PATIENCE = 5.0
"""Time limit in seconds for a client to send its request, and again to read the response."""
_TEXT = "text/plain; charset=utf-8"
_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"

Answer = tuple[int, str, str]
"""Status, body, content type."""


class Health:
    """Serves one supervisor; raises ConfigError if the port is in use."""

    def __init__(self, host: str, port: int) -> None:
        self._status: WorkerStatus | None = None
        self._metrics: Metrics | None = None
        self._scrapes = threading.BoundedSemaphore(_SCRAPES_AT_ONCE)
        try:
            self._server = _Server(host, port, self.answer)
        except OSError as error:
            raise ConfigError(
                f"the health port {host}:{port} cannot be used ({error.strerror or error}): "
                "does another worker run here? Choose another --health-port"
            ) from None
        self._thread = threading.Thread(target=self._server.serve_forever, name="lockwork-health", daemon=True)

    def answer(self, path: str) -> Answer:
        """Answer one request."""
        if path == "/livez":
            if self._status is None or self._status.alive:
                return 200, "ok\n", _TEXT
            return 503, "not alive: the supervisor has stopped responding\n", _TEXT
        if path == "/readyz":
            trouble = "it is starting" if self._status is None else self._status.trouble
            return (503, f"not ready: {trouble}\n", _TEXT) if trouble else (200, "ok\n", _TEXT)
        if path == "/metrics" and self._metrics is not None:
            if not self._scrapes.acquire(blocking=False):
                return 503, "busy: too many scrapes at once\n", _TEXT
            try:
                return 200, self._metrics.text(), _PROMETHEUS
            finally:
                self._scrapes.release()
        return 404, "try /livez, /readyz or /metrics\n", _TEXT

    def start(self, status: WorkerStatus, metrics: Metrics) -> None:
        """Start answering."""
        self._status, self._metrics = status, metrics
        self._thread.start()

    def close(self) -> None:
        """Stop answering."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, host: str, port: int, answer: Callable[[str], Answer]) -> None:
        self.answer = answer
        self._places = threading.BoundedSemaphore(_AT_ONCE)
        self._accepted: dict[socket.socket, float] = {}
        """Connections with the time of their start; the oldest first."""
        self._working: set[socket.socket] = set()
        """Connections that wait for an answer of this server; the others wait for their clients."""
        self._lock = threading.Lock()
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        # the base class would look up the host name, which may block
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = str(self.server_address[0]), self.socket.getsockname()[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._places.acquire(blocking=False):
            self._end_oldest()
            if not self._places.acquire(timeout=_PATIENCE):
                self.shutdown_request(request)
                return
        with self._lock:
            self._accepted[request] = now()
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # the system cannot create a thread now
            self._forget(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._forget(request)

    def _forget(self, connection: socket.socket) -> None:
        with self._lock:
            self._accepted.pop(connection, None)
        self._places.release()

    @contextlib.contextmanager
    def working(self, connection: socket.socket) -> Iterator[None]:
        """Protect a connection while its client waits for this server."""
        with self._lock:
            self._working.add(connection)
        try:
            yield
        finally:
            with self._lock:
                self._working.discard(connection)

    def _end_oldest(self) -> None:
        """End the oldest connection that waits for its client, to free its place."""
        with self._lock:
            oldest = next((each for each in self._accepted.items() if each[0] not in self._working), None)
        if oldest is None:
            return
        connection, since = oldest
        if (grace := since + _GRACE - now()) > 0 and self._places.acquire(timeout=grace):
            self._places.release()
            return
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a client that disconnected, or sent an invalid request


class _Question(io.RawIOBase):
    """A client's request; raises TimeoutError if it takes too long, even if bytes keep arriving."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._until = now() + _PATIENCE

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        remaining = self._until - now()
        if remaining <= 0:
            raise TimeoutError
        self._connection.settimeout(remaining)
        try:
            return self._connection.recv_into(buffer)
        finally:
            self._connection.settimeout(_PATIENCE)


class _Handler(BaseHTTPRequestHandler):
    timeout = _PATIENCE

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self.rfile = io.BufferedReader(_Question(self.connection))

    def do_GET(self) -> None:
        assert isinstance(self.server, _Server)
        with self.server.working(self.connection):
            status, body, kind = self.server.answer(self.path.partition("?")[0])
        encoded = body.encode()
        with contextlib.suppress(OSError):
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(encoded)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(encoded)

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, format: str, *args: Any) -> None:
        pass
