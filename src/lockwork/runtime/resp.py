"""Commands as the bytes that the server reads, and a parser for what it answers."""

from __future__ import annotations

from typing import Any, cast

import hiredis

from lockwork.protocol.effects import Call

NOTHING = object()


def pack(*command: Any) -> bytes:
    """Encode a command."""
    # hiredis 3.5 dereferences NULL when a signal handler raises while it turns a number into text: it gets none
    words = tuple([str(word) if type(word) is int else word for word in command])
    packed: bytes = hiredis.pack_command(cast("Any", words))  # its stub knows commands of one word only
    return packed


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
