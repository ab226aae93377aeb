"""Encodes commands, parses replies, and measures unacknowledged bytes."""

from __future__ import annotations

import struct
import sys
from typing import Any

import hiredis

from lockwork.protocol import functions
from lockwork.protocol.effects import Call

LARGE: int = 65536
"""Size in bytes of a large command; a smaller one is sent at once unless the connection is dead."""

if sys.platform != "win32":
    import fcntl
    import termios

    def unacknowledged(descriptor: int) -> int:
        """Return the bytes in a socket's send buffer that the other side has not acknowledged; 0 if unknown."""
        if not hasattr(termios, "TIOCOUTQ"):
            return 0
        try:
            return int(struct.unpack("i", fcntl.ioctl(descriptor, termios.TIOCOUTQ, b"\0" * 4))[0])
        except (OSError, ValueError):  # the descriptor of a closed socket is -1
            return 0

else:  # pragma: no cover

    def unacknowledged(descriptor: int) -> int:  # noqa: ARG001
        """Return 0: Windows does not report it."""
        return 0


NOTHING = object()


def pack(*command: Any) -> bytes:
    """Encode a command."""
    # hiredis 3.5 dereferences NULL if a signal handler raises while it formats a number: pass only text
    words = tuple([str(word) if type(word) is int else word for word in command])
    packed: bytes = hiredis.pack_command(words)  # type: ignore[arg-type]  # its stub allows only commands of one word
    return packed


ASKING: bytes = pack("ASKING")
"""Precedes a call whose slot is migrating to the node of a Cluster."""


def pack_call(call: Call, *, whole: bool = False) -> bytes:
    """Encode a call; `whole` sends the script itself, which also makes the server remember it."""
    if call.packed is not None and not whole:
        return call.packed
    head = ("EVAL", call.script.source) if whole else ("EVALSHA", call.script.sha)
    return pack(*head, len(call.keys), *call.keys, *call.args)


def pack_function_call(call: Call) -> bytes:
    """Encode a call to the function version of a read-only script."""
    return pack("FCALL_RO", functions.function(call.script), len(call.keys), *call.keys, *call.args)


def pack_ahead(call: Call) -> None:
    """Encode the expected next call after `call`, while `call` is under way."""
    following = call.ahead() if call.ahead is not None else None
    if following is not None and following.packed is None:
        following.packed = pack_call(following)


def pack_wait(replicas: int, seconds: float) -> bytes:
    """Encode WAIT: the server returns the number of replicas with this connection's writes, after at most `seconds`."""
    return pack("WAIT", replicas, int(seconds * 1000))


def new_reader() -> hiredis.Reader:
    """Return a parser that returns NOTHING for an incomplete reply, and errors as values."""
    return hiredis.Reader(notEnoughData=NOTHING)
