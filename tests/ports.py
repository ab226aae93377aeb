"""TCP ports on loopback for the tests."""

from __future__ import annotations

import socket


def free_port() -> int:
    """A port that nobody listens on now; a node of a Cluster also listens 10,000 above it."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as found:
            port = int(found.getsockname()[1])
            if port <= 55_535:
                return port
