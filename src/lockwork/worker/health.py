"""Health: a tiny HTTP server for probes; /livez does not depend on the Redis server, /readyz does."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from lockwork.errors import ConfigError
from lockwork.worker.supervisor import Supervisor


class Health:
    """Serves the probes of one supervisor; raises ConfigError when the port is taken."""

    def __init__(self, host: str, port: int) -> None:
        self.supervisor: Supervisor | None = None
        health = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                known = {"/livez": health.alive, "/readyz": health.ready}
                probe = known.get(self.path)
                status = 404 if probe is None else (200 if probe() else 503)
                body = {200: b"ok\n", 404: b"try /livez or /readyz\n", 503: b"not now\n"}[status]
                self.send_response(status)
                self.send_header("Content-Type", "text/plain")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        try:
            self._server = ThreadingHTTPServer((host, port), Handler)
        except OSError as error:
            raise ConfigError(
                f"the health port {host}:{port} cannot be used ({error.strerror or error}): "
                "does another worker run here? Choose another --health-port"
            ) from None
        self._thread = threading.Thread(target=self._server.serve_forever, name="lockwork-health", daemon=True)

    def alive(self) -> bool:
        """Whether the worker should be left alone."""
        return self.supervisor is None or self.supervisor.alive

    def ready(self) -> bool:
        """Whether the worker takes jobs."""
        return self.supervisor is not None and self.supervisor.ready

    def start(self, supervisor: Supervisor) -> None:
        """Begin to answer for this supervisor."""
        self.supervisor = supervisor
        self._thread.start()

    def close(self) -> None:
        """Stop answering."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()
