"""How a stored job begins, the part that the server reads; what is behind it, the body, is the app's."""

from __future__ import annotations

import re
from typing import NamedTuple

_HEAD = re.compile(rb"\d,(\d+),")


class Limits(NamedTuple):
    """What a group of jobs may do: so many `at_once`, and `jobs` in `per_ms`; 0 is no limit."""

    at_once: int = 0
    jobs: int = 0
    per_ms: int = 0


def head(
    priority: int, deliveries: int, key: str = "", group: str = "", limits: Limits | None = None, unique: str = ""
) -> bytes:
    """How a record begins: `priority,max deliveries,key,group,limits,unique;`, without empty parts behind the group.

    The server reads nothing of what follows, the body. No name may hold a comma or a semicolon.
    """
    if unique:
        return b"%b,%b;" % (
            head(priority, deliveries, key, group, limits)[:-1] + (b"" if group else b","),
            unique.encode(),
        )
    if not group:
        return b"%d,%d,%b,;" % (priority, deliveries, key.encode())
    return b"%d,%d,%b,%b,%d/%d/%d;" % (priority, deliveries, key.encode(), group.encode(), *(limits or Limits()))


def body(stored: bytes) -> bytes:
    """Return the body of a record."""
    return stored[stored.index(b";") + 1 :]


def deliveries(stored: bytes) -> int:
    """Return how often a record may be delivered; 0 when its header cannot be read."""
    found = _HEAD.match(stored)
    return int(found[1]) if found else 0
