"""Commands as bytes, a parser for replies, and how much of what was written is still under way."""

from __future__ import annotations

import struct
import sys
from typing import Any, cast

import hiredis

from lockwork.protocol.effects import Call

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


NOTHING = object()


def pack(*command: Any) -> bytes:
    """Encode a command."""
    # hiredis 3.5 dereferences NULL when a signal handler raises while it turns a number into text: it gets none
    words = tuple([str(word) if type(word) is int else word for word in command])
    packed: bytes = hiredis.pack_command(cast("Any", words))  # its stub knows commands of one word only
    return packed


ASKING: bytes = pack("ASKING")
"""Precedes a call whose slot is on its way to the node of a Cluster."""


def pack_call(call: Call, *, whole: bool = False) -> bytes:
    """Encode a call; `whole` sends the script itself, which also makes the server remember it."""
    if call.packed is not None and not whole:
        return call.packed
    head = ("EVAL", call.script.source) if whole else ("EVALSHA", call.script.sha)
    return pack(*head, len(call.keys), *call.keys, *call.args)


def pack_ahead(call: Call) -> None:
    """Encode what will follow on `call`, which is under way."""
    following = call.ahead() if call.ahead is not None else None
    if following is not None and following.packed is None:
        following.packed = pack_call(following)


def pack_wait(replicas: int, seconds: float) -> bytes:
    """Encode the question how many replicas have what this connection wrote so far, waiting for `replicas` of them."""
    return pack("WAIT", replicas, int(seconds * 1000))


def new_reader() -> hiredis.Reader:
    """A parser that returns NOTHING when a reply is not complete yet, and errors as values."""
    return hiredis.Reader(notEnoughData=NOTHING)
