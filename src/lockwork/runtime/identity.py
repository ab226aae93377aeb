"""Who a connection is to the server, so that another one can end it there.

A request that was given up on may still be on its way in its old connection, and would take effect after the one that
replaced it: a job that has ended would come back. So whoever sends it again ends the old connection first.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from lockwork.runtime.packing import pack

ASK: bytes = pack("INFO") + pack("CLIENT", "ID")
"""What a connection asks when it is new."""
_RUN = re.compile(rb"^run_id:(\w+)", re.MULTILINE)


class Identity(NamedTuple):
    """A connection's number, in one life of the server: a restarted one counts anew."""

    run: bytes
    number: int


def identify(info: object, number: object) -> Identity | None:
    """Read the two replies; None when the user has no right to ask."""
    found = _RUN.search(info) if isinstance(info, bytes) else None
    return Identity(found[1], number) if found is not None and isinstance(number, int) else None


def end(gone: Identity) -> bytes:
    """The command that ends a connection; an error means that it has ended, or that we have no right to do so."""
    return pack("CLIENT", "KILL", "ID", gone.number)
