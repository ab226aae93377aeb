"""How much of what was written is still under way: on a slow link that shrinks, on a dead one it does not."""

from __future__ import annotations

import struct
import sys

LARGE: int = 65536
"""Bytes; what is smaller leaves at once, or the connection is dead."""

if sys.platform != "win32":
    import fcntl
    import termios

    def unacknowledged(descriptor: int) -> int:
        """Return the bytes in a socket's send buffer that the other side has not acknowledged; 0 if unknown."""
        if not hasattr(termios, "TIOCOUTQ"):
            return 0
        try:
            return int(struct.unpack("i", fcntl.ioctl(descriptor, termios.TIOCOUTQ, b"\0" * 4))[0])
        except (OSError, ValueError):  # a closed socket's descriptor is -1
            return 0

else:  # pragma: no cover

    def unacknowledged(descriptor: int) -> int:  # noqa: ARG001
        """Return 0: Windows does not say."""
        return 0
