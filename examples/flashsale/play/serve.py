"""Serves the shop on a listening socket that the demo opened: so its port is free, and nobody is refused meanwhile.

Usage: serve.py DESCRIPTOR, in the shop's folder.
"""

from __future__ import annotations

import socket
import sys

import uvicorn


def main() -> None:
    """Serve until SIGTERM."""
    config = uvicorn.Config(
        "shop:app", access_log=False, log_level="warning", server_header=False, timeout_graceful_shutdown=1
    )
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=int(sys.argv[1]))])


if __name__ == "__main__":
    main()
