"""TCP ports on loopback for the tests."""

from __future__ import annotations

import fcntl
import socket
import tempfile
from collections.abc import Iterator
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import IO

_FIRST, _BLOCKS, _SIZE = 10_000, 50, 180
"""Below the ports that Linux gives to outgoing connections, which would take a port before its server does."""
_ABOVE = 10_000
"""Distance of a Cluster node's second port from its first."""


def free_port() -> int:
    """Return a free port that no concurrent test process gets; the port 10,000 above is free too."""
    _, ports = _block()
    return next(port for port in ports if _is_free(port) and _is_free(port + _ABOVE))


@cache
def _block() -> tuple[IO[bytes], Iterator[int]]:
    """Ports that are this process's as long as it lives: it holds the lock of a file."""
    folder = Path(tempfile.gettempdir()) / "lockwork-test-ports"
    folder.mkdir(exist_ok=True)
    for number in range(_BLOCKS):
        file = (folder / str(number)).open("wb")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            continue
        first = _FIRST + number * _SIZE
        return file, cycle(range(first, first + _SIZE))
    raise AssertionError(f"{_BLOCKS} processes have ports for tests already")


def _is_free(port: int) -> bool:
    try:
        with socket.create_server(("127.0.0.1", port)):
            return True
    except OSError:
        return False
