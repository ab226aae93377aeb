"""Commands as the bytes that the server reads, and a parser for what it answers."""

from __future__ import annotations

from typing import Any, cast

import hiredis

from lockwork.protocol.scripts import Script

NOTHING = object()


def pack(*command: Any) -> bytes:
    """Encode a command."""
    # hiredis 3.5 dereferences NULL when a signal handler raises while it turns a number into text: it gets none
    words = tuple([str(word) if type(word) is int else word for word in command])
    packed: bytes = hiredis.pack_command(cast("Any", words))  # its stub knows commands of one word only
    return packed


def pack_script(script: Script, keys: Any, args: Any, *, whole: bool = False) -> bytes:
    """Encode a script call; `whole` sends the script itself, which also makes the server remember it."""
    head = ("EVAL", script.source) if whole else ("EVALSHA", script.sha)
    return pack(*head, len(keys), *keys, *args)


def pack_wait(replicas: int, seconds: float) -> bytes:
    """Encode the question how many replicas have what this connection wrote so far, waiting for `replicas` of them."""
    return pack("WAIT", replicas, int(seconds * 1000))


def new_reader() -> hiredis.Reader:
    """A parser that returns NOTHING when a reply is not complete yet, and errors as values."""
    return hiredis.Reader(notEnoughData=NOTHING)
