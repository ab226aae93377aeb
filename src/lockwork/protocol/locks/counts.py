"""Counters of the locks of all processes: lost leases, and the duration of transfers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from lockwork.protocol.effects import Argument, Protocol, script_call

_KEPT_MS = 30 * 86_400_000
"""Time to live of the counters after the last write, in ms."""
_KINDS = {"lock": "lock", "rw": "rwlock", "sem": "semaphore", "quorum": "quorum", "q": "queuelock"}
KINDS: tuple[str, ...] = (*_KINDS.values(), "other")
"""The kinds of locks that have separate counters."""
_TAG = re.compile(r"\{(\w+):")


class CountKeys(NamedTuple):
    """The key of the counters, and the key that marks one applied call."""

    counts: str
    sent: str = ""


def keys(prefix: str, id: str = "") -> CountKeys:
    """Return the keys; `id` is the id of a call that adds."""
    base = f"{prefix}:{{lockwork}}:locks"
    return CountKeys(base, f"{base}:{id}")


def kind_of(key: str) -> str:
    """Return the kind of lock that has this key."""
    match = _TAG.search(key)
    return _KINDS.get(match[1], "other") if match else "other"


def add(prefix: str, id: str, amounts: Mapping[str, int]) -> Protocol[bool]:
    """Add to the counters by name; return False if the call with this id was already applied."""
    args: list[Argument] = [_KEPT_MS]
    for name, amount in amounts.items():
        args += (name, amount)
    return bool((yield script_call("locks/add_counts", keys(prefix, id), args)))


def read(prefix: str) -> Protocol[dict[str, int]]:
    """Read all counters by name."""
    reply = yield script_call("locks/read_counts", keys(prefix), [])
    return {reply[at].decode(): int(reply[at + 1]) for at in range(0, len(reply), 2)}
