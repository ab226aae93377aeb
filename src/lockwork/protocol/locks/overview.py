"""All locks at once: holders, waiters, which of them waits for which, and deadlocks.

The picture is not atomic across locks. So a deadlock counts only if the same grants and the same waiters are there when
its locks are read once more: each of them was there all the time in between, and so they were there together.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from glob import escape
from math import inf
from typing import Any

from lockwork.protocol import slots
from lockwork.protocol.effects import Call, Protocol, Shards, on_each_shard, script_call
from lockwork.protocol.locks import deadlocks
from lockwork.protocol.locks.deadlocks import Deadlock, Edge, Resource, Share

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


_STEP = 500
_NAMED = 200
KINDS = ("lock", "rwlock", "semaphore", "quorum", "queuelock")
_KINDS = {"lock": "lock", "rw": "rwlock", "sem": "semaphore", "quorum": "quorum", "queue": "queuelock"}
_SIGNS = re.compile(r"[\\*?\[\]]")


@dataclass(frozen=True, slots=True)
class Held:
    """One live grant; times are in seconds."""

    holder: Holder
    request: str
    fence: int
    units: int
    expires_in: float
    held_for: float


@dataclass(frozen=True, slots=True)
class Waiting:
    """One live waiter, in the order of the line."""

    holder: Holder
    request: str
    units: int
    waited: float


@dataclass(frozen=True, slots=True)
class LockSnapshot:
    """One lock when it was read.

    `kind` is "lock", "rwlock" (whose writer has all units), "semaphore", "queuelock" (a queue's: its name is
    QUEUE/NAME), or "quorum": what one server knows of a lock on several.
    """

    key: str
    kind: str
    name: str
    capacity: int
    holders: tuple[Held, ...]
    line: tuple[Waiting, ...]
    more_holders: int
    """Holders that are not named here, some of which may be gone."""
    more_waiters: int
    """Places in line that are not named here, some of which may be empty."""
    kept_for: float
    """Seconds that it stays taken although nobody holds it (`at_least`)."""


@dataclass(frozen=True, slots=True)
class Overview:
    """The locks that somebody holds or waits for, the reasons for waiting, and the deadlocks."""

    locks: tuple[LockSnapshot, ...]
    waits: tuple[Edge, ...]
    deadlocks: tuple[Deadlock, ...]


def literal(name: str) -> str:
    """A pattern that only this name matches."""
    return escape(name)


def look(prefix: str, pattern: str = "*") -> Protocol[Overview]:
    """Read all locks, and return those whose names match a pattern with *, ? and [...], with what concerns them."""
    found: dict[str, LockSnapshot] = {}
    match = f"{_SIGNS.sub(_escaped, prefix)}:{{*"

    def walk(shard: int) -> Protocol[None]:
        cursor = ""
        while cursor != "0":
            reply = yield replace(_call(prefix, [], cursor or "0", match), shard=shard)
            postponed = _sort(prefix, reply, found)
            yield from _read(prefix, postponed, found)
            cursor = reply[0].decode()

    yield from on_each_shard(walk)
    locks = sorted(found.values(), key=lambda each: (each.name, each.kind))
    locks = [each for each in locks if each.holders or each.line or each.kept_for]
    resources = [_resource(each) for each in locks]
    suspects = deadlocks.find(resources)
    if suspects:
        members = {owner for each in suspects for owner in each.members}
        again: dict[str, LockSnapshot] = {}
        yield from _read(prefix, [each.key for each in locks if members & _owners(each)], again)
        suspects = deadlocks.find([_resource(_still(found[key], each)) for key, each in again.items()])
    shown = [each for each in locks if fnmatchcase(each.name, pattern)]
    names = {_resource(each).name for each in shown}
    return Overview(
        tuple(shown),
        tuple(edge for edge in deadlocks.graph(resources) if edge.resource in names),
        tuple(each for each in suspects if any(edge.resource in names for edge in each.cycle)),
    )


def _read(prefix: str, keys: Sequence[str], into: dict[str, LockSnapshot]) -> Protocol[None]:
    """Read these locks; each call reads one at least, and as many as are not too much for it."""
    left = list(keys)
    step = _STEP if (yield Shards()) == 1 else 1  # on a Cluster, the keys of one call lie in one slot
    while left:
        reply = yield _call(prefix, left[:step], "0", "")
        left = _sort(prefix, reply, into) + left[step:]


def _sort(prefix: str, reply: list[Any], into: dict[str, LockSnapshot]) -> list[str]:
    """Put away what was read, and return the keys that were not."""
    for entry in reply[1:]:
        if len(entry) > 1:
            snapshot = _snapshot(prefix, entry)
            into[snapshot.key] = snapshot
    return [entry[0].decode() for entry in reply[1:] if len(entry) == 1]


def _escaped(sign: re.Match[str]) -> str:
    return "\\" + sign[0]


def _call(prefix: str, keys: Sequence[str], cursor: str, match: str) -> Call:
    return script_call("locks_overview", keys, [f"{prefix}:", cursor, match, _STEP, _NAMED])


def _snapshot(prefix: str, entry: list[Any]) -> LockSnapshot:
    key, kind, capacity, more_holders, more_waiters, kept, holders, line = entry
    text = key.decode(errors="replace")
    return LockSnapshot(
        text,
        _KINDS[kind.decode()],
        _name(text[len(prefix) + 1 :]),
        capacity,
        tuple(
            Held(_holder(owner, request), request.decode(errors="replace"), fence, units, left / 1000, held / 1000)
            for owner, request, fence, units, left, held in holders
        ),
        tuple(
            Waiting(_waiter(owner, request), request.decode(errors="replace"), units, waited / 1000)
            for owner, request, units, waited in line
        ),
        more_holders,
        more_waiters,
        kept / 1000,
    )


def _name(key: str) -> str:
    tag, _, rest = key.partition(":")[2].partition("}")
    return f"{slots.queue_of(tag)}/{rest.removeprefix(':lock:')}" if rest else tag


def _holder(owner: bytes, request: bytes) -> Holder:
    # `~` ends the owner of a grant that may be in other hands by now: of a sticky lock, or on its way to who adopts it.
    # So its thread or task is not taken for the holder: nobody waits under that name.
    return read(owner.decode(errors="replace"), request.decode(errors="replace"))


def _waiter(owner: bytes, request: bytes) -> Holder:
    # a waiter is always the thread or asyncio task itself
    return read(owner.decode(errors="replace").partition("~")[0], request.decode(errors="replace"))


def _resource(lock: LockSnapshot) -> Resource:
    holders = {held.holder.owner for held in lock.holders} if lock.kind in ("lock", "queuelock") else ()
    return Resource(
        f"{lock.kind} {lock.name}",
        lock.capacity,
        tuple(Share(held.holder.owner, held.units) for held in lock.holders),
        # a lock that was granted to a call which never learned of it goes to the same owner's next call
        tuple(Share(waiter.holder.owner, waiter.units) for waiter in lock.line if waiter.holder.owner not in holders),
    )


def _owners(lock: LockSnapshot) -> set[str]:
    return {held.holder.owner for held in lock.holders} | {waiter.holder.owner for waiter in lock.line}


def _still(first: LockSnapshot, second: LockSnapshot) -> LockSnapshot:
    """What was there at both looks, and all the time in between: a request that came anew has waited for less time."""
    fences = {held.fence for held in first.holders}
    waited = {waiter.request: waiter.waited for waiter in first.line}
    return replace(
        second,
        holders=tuple(held for held in second.holders if held.fence in fences),
        line=tuple(waiter for waiter in second.line if waiter.waited >= waited.get(waiter.request, inf)),
    )
