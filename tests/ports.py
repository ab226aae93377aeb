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
"""Lower than the range for outgoing connections on Linux, so that none takes a server's port before the server."""
_ABOVE = 10_000
"""Distance between a Cluster node's two ports."""


def free_port() -> int:
    """Return a free port that no concurrent test process gets; the port 10,000 above is free too."""
    _, ports = _block()
    return next(port for port in ports if _is_free(port) and _is_free(port + _ABOVE))


@cache
def _block() -> tuple[IO[bytes], Iterator[int]]:
    """Reserve ports for this process by locking a file until the process ends."""
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
