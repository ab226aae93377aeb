"""How much of what was written is still under way: on a slow link that shrinks, on a dead one it does not."""

from __future__ import annotations

import struct
from typing import Protocol

try:
    import fcntl
    import termios
except ImportError:  # pragma: no cover - Windows
    fcntl = None  # type: ignore[assignment]

LARGE: int = 65536
"""Bytes; what is smaller leaves at once, or the connection is dead."""


class HasFileno(Protocol):
    """A socket, or what stands for one."""

    def fileno(self) -> int:
        """Return its descriptor."""


def unacknowledged(sock: HasFileno) -> int:
    """Return the bytes in the send buffer that the other side has not acknowledged; 0 where the system cannot tell."""
    if fcntl is None or not hasattr(termios, "TIOCOUTQ"):
        return 0
    try:
        return int(struct.unpack("i", fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, b"\0" * 4))[0])
    except OSError:
        return 0
