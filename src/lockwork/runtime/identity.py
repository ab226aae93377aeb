"""Who a connection is to the server, so that another one can end it there.

A request that was given up on may still be on its way in its old connection, and would take effect after the one that
replaced it: a job that has ended would come back. So whoever sends it again ends the old connection first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from lockwork.runtime.resp import pack

_NO_CONNECTION = 2**63 - 1
"""The server numbers connections from 1 on. Never 0: Redis 6.2 takes `CLIENT KILL ID 0` for all connections."""
COMMANDS: tuple[tuple[str, ...], ...] = (("INFO",), ("CLIENT", "ID"), ("CLIENT", "KILL", "ID", str(_NO_CONNECTION)))
"""What a new connection sends; the last ends nothing, and shows whether this user may end connections."""
ASK: bytes = b"".join(pack(*command) for command in COMMANDS)
_RUN = re.compile(rb"^run_id:(\w+)", re.MULTILINE)


class Identity(NamedTuple):
    """A connection's number, in one life of the server: a restarted one counts anew."""

    run: bytes
    number: int


def identify(replies: Sequence[object]) -> Identity | None:
    """Read the replies to ASK; None when this user could not end the connection later."""
    info, number, ended = replies
    found = _RUN.search(info) if isinstance(info, bytes) else None
    if found is None or not isinstance(number, int) or not isinstance(ended, int):
        return None
    return Identity(found[1], number)


def end(gone: Identity) -> bytes:
    """The command that ends a connection; an error means that it has ended already."""
    return pack("CLIENT", "KILL", "ID", gone.number)
