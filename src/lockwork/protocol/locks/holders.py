"""Who holds or waits, as text on the server: owner `host/pid/nonce:number:label`, request `host/pid/nonce.number;tags`.

A request that begins with `~` is a sticky lock's, whose owner ends with `~` and the request: one owner per request.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_ODD = re.compile(r"[^\w.-]+", re.ASCII)
_LONGEST = 40


@dataclass(frozen=True, slots=True)
class Holder:
    """One owner: `label` is the name of its thread or task, `tags` are what the app gave with the lock."""

    owner: str
    host: str
    pid: int
    label: str
    tags: tuple[str, ...] = ()


def plain(text: str) -> str:
    """Return `text` as it may stand inside an owner: short, and without separators."""
    return _ODD.sub("_", text)[:_LONGEST]


def process_name(host: str, pid: int, nonce: str) -> str:
    """The name of one process, for good: a number may be used again by another process, the nonce is not."""
    return f"{plain(host)}/{pid}/{nonce}"


def with_tags(request: str, tags: Sequence[str]) -> str:
    """Add tags to a request."""
    return f"{request};{','.join(tags)}" if tags else request


def read(owner: str, request: str = "") -> Holder:
    """Read an owner and its request; what was not written by us is shown as it is."""
    process, _, rest = owner.partition(":")
    host, _, numbers = process.rpartition("/")[0].rpartition("/")
    label = rest.partition(":")[2].partition("~")[0]
    tags = request.partition(";")[2]
    return Holder(
        owner,
        host,
        int(numbers) if numbers.isdecimal() else 0,
        label,
        tuple(tags.split(",")) if tags else (),
    )
