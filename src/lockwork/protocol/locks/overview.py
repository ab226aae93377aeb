"""Read all locks: holders, waiters, which waiter waits for which owner, and deadlocks.

The snapshot is not atomic across locks. So a deadlock counts only if the same grants and the same waiters exist when
its locks are read a second time. Each grant and waiter then existed during the whole interval, and so they existed
together.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache
from glob import escape
from math import inf
from typing import Any

from lockwork.errors import ConfigError
from lockwork.protocol import keys, names, slots
from lockwork.protocol.effects import Protocol, Shards, concurrently, script_call
from lockwork.protocol.index import index
from lockwork.protocol.index.index import LOCKS
from lockwork.protocol.locks import deadlocks
from lockwork.protocol.locks.deadlocks import Deadlock, Edge, Resource, Share

_ODD = re.compile(r"[^\w.-]+", re.ASCII)
_LONGEST = 40
STICKY = "~"
"""Prefix of the requests of sticky locks."""


@dataclass(frozen=True, slots=True)
class Holder:
    """One owner: `label` is the name of its thread or asyncio task, `tags` are the tags of the lock.

    `job` is the id of the job that acquires the lock, and `task` is the job's task; None outside a job. A call of a
    batch task counts as its first job. The holder of a sticky lock has no job: the next job of its process may use it.
    """

    owner: str
    host: str
    pid: int
    label: str
    tags: tuple[str, ...] = ()
    job: str | None = None
    task: str | None = None


def plain(text: str) -> str:
    """Return `text` in a form that is valid inside an owner: short, and without separators."""
    return _ODD.sub("_", text)[:_LONGEST]


def process_name(host: str, pid: int, nonce: str) -> str:
    """Return the unique name of a process: another process may reuse the pid, but not the nonce."""
    return f"{plain(host)}/{pid}/{nonce}"


def described(request: str, tags: Sequence[str], job: str) -> str:
    """Append to a request id the tags of the lock, and the job that sends the request (from `job_text`), or ""."""
    if tags:
        request = f"{request};{','.join(map(names.stored, tags))}"
        return f"{request};{job}" if job else request
    return f"{request};;{job}" if job else request


def job_text(id: str, task: str) -> str:
    """Return the text for a job in a request; an id contains no white space."""
    return f"{_stored_task(task)},{id}"


_stored_task = cache(names.stored)


def read(owner: str, request: str = "") -> Holder:
    """Parse an owner and its request; data of other programs is returned unchanged."""
    process, _, rest = owner.partition(":")
    host, _, numbers = process.rpartition("/")[0].rpartition("/")
    label = rest.partition(":")[2].partition("~")[0]
    id, _, description = request.partition(";")
    tags, _, job = description.partition(";")
    task, _, job_id = ("" if id.startswith(STICKY) else job).partition(",")
    return Holder(
        owner,
        host,
        int(numbers) if numbers.isdecimal() else 0,
        label,
        tuple(map(names.shown, tags.split(","))) if tags else (),
        job_id or None,
        names.shown_or_none(task),
    )


_STEP = 500
_NAMED = 200
_WILD = re.compile(r"[*?\[]")
_LITERAL = re.compile(r"\[([*?\[])\]")
"""A literal character in a pattern; see `literal`."""
KINDS = ("lock", "rwlock", "semaphore", "quorum", "queuelock")
_KINDS = {"lock": "lock", "rw": "rwlock", "sem": "semaphore", "quorum": "quorum", "queue": "queuelock"}


@dataclass(frozen=True, slots=True)
class LockHolder:
    """One live grant; times are in seconds."""

    holder: Holder
    request: str
    fence: int
    units: int
    expires_in: float
    held_for: float


@dataclass(frozen=True, slots=True)
class LockWaiter:
    """One live waiter."""

    holder: Holder
    request: str
    units: int
    waited: float


@dataclass(frozen=True, slots=True)
class LockSnapshot:
    """One lock at the time of the read.

    `kind` is "lock", "rwlock" (a writer has all units), "semaphore", "queuelock" (a lock of a queue, with the name
    QUEUE/NAME), or "quorum" (one server's part of a lock on several servers).
    """

    key: str
    kind: str
    name: str
    capacity: int
    holders: tuple[LockHolder, ...]
    line: tuple[LockWaiter, ...]
    more_holders: int
    """Number of holders that are not listed; some may have ended."""
    more_waiters: int
    """Number of places of waiters that are not listed; some may be empty."""
    kept_for: float
    """Seconds that it stays taken without a holder (`at_least`)."""

    @property
    def owners(self) -> list[Holder]:
        """The holders, followed by the waiters in their order."""
        return [held.holder for held in self.holders] + [waiter.holder for waiter in self.line]


@dataclass(frozen=True, slots=True)
class Overview:
    """The locks with a holder or a waiter, the edges between owners, and the deadlocks."""

    locks: tuple[LockSnapshot, ...]
    waits: tuple[Edge, ...]
    deadlocks: tuple[Deadlock, ...]
    owners: Mapping[str, Holder] = field(default_factory=dict[str, Holder])
    """All owners in `waits` and `deadlocks`, including owners of locks that do not match."""


def literal(name: str) -> str:
    """Return a pattern that matches only this name."""
    return escape(name)


def read_locks(prefix: str, pattern: str = "*", *, contended: bool = False) -> Protocol[Overview]:
    """Read all locks; return the locks whose names match a pattern with *, ? and [...], and their edges and deadlocks.

    Reads the locks of the index, which have been held or waited for longer than a second, the locks of this process,
    and locks whose whole name is the pattern.
    contended: read only locks that have waiters, which is enough to find every deadlock.
    """
    snapshots: dict[str, LockSnapshot] = {}
    indexed = [LOCKS.key(prefix, name) for name in (yield from index.read(prefix, LOCKS))]
    yield from _read(prefix, [*dict.fromkeys([*indexed, *_named(prefix, pattern)])], snapshots, contended)
    locks = sorted(snapshots.values(), key=lambda each: (each.name, each.kind))
    locks = [each for each in locks if each.holders or each.line or each.kept_for]
    resources = [_resource(each) for each in locks]
    suspects = deadlocks.find(resources)
    if suspects:
        members = {owner for each in suspects for owner in each.members}
        again: dict[str, LockSnapshot] = {}
        yield from _read(
            prefix, [each.key for each in locks if any(holder.owner in members for holder in each.owners)], again
        )
        suspects = deadlocks.find([_resource(_still(snapshots[key], each)) for key, each in again.items()])
    whole_name = names.display(names.typed(pattern))
    visible_locks = [each for each in locks if each.name == whole_name or fnmatchcase(each.name, pattern)]
    resources_shown = {_resource(each).name for each in visible_locks}
    waits = tuple(edge for edge in deadlocks.graph(resources) if edge.resource in resources_shown)
    stuck = tuple(each for each in suspects if any(edge.resource in resources_shown for edge in each.cycle))
    involved = {owner for edge in waits for owner in (edge.waiter, edge.blocker)}
    involved |= {owner for each in stuck for owner in each.members}
    owners = {holder.owner: holder for each in locks for holder in each.owners if holder.owner in involved}
    return Overview(tuple(visible_locks), waits, stuck, owners)


def _named(prefix: str, pattern: str) -> list[str]:
    """Return the keys of all locks whose name is the pattern; empty if the pattern has wildcards."""
    if _WILD.search(_LITERAL.sub("", pattern)):
        return []
    name = names.typed(_LITERAL.sub(r"\1", pattern))
    lock_keys = [kind(prefix, name) for kind in (keys.lock, keys.rwlock, keys.semaphore, keys.quorum)]
    queue, *rest = name.split("/", 2)
    of_queues = [(queue, "/".join(rest))] if rest else []
    if len(rest) == 2:
        of_queues.append((f"{queue}/{rest[0]}", rest[1]))  # a lock of a partition
    for queue, lock in of_queues:
        with suppress(ConfigError):
            lock_keys.append(keys.QueueKeys(prefix, keys.checked_queue(queue)).lock(names.typed(lock)))
    return lock_keys


def _read(prefix: str, chosen: Sequence[str], into: dict[str, LockSnapshot], contended: bool = False) -> Protocol[None]:
    """Read these locks in several calls; each call reads at least one lock, within its budget."""
    if (yield Shards()) > 1:  # the keys of one call lie in one slot of a Cluster
        yield from concurrently([_read_some(prefix, [key], into, contended) for key in chosen])
    else:
        yield from _read_some(prefix, chosen, into, contended)


def _read_some(prefix: str, chosen: Sequence[str], into: dict[str, LockSnapshot], contended: bool) -> Protocol[None]:
    remaining = list(chosen)
    while remaining:
        reply = yield script_call("locks/overview", remaining[:_STEP], [f"{prefix}:", _NAMED, int(contended)])
        remaining = _sort(prefix, reply, into) + remaining[_STEP:]


def _sort(prefix: str, reply: list[Any], into: dict[str, LockSnapshot]) -> list[str]:
    """Add the locks of a reply to `into`; return the keys that the call did not read."""
    for entry in reply:
        if len(entry) > 1:
            snapshot = _snapshot(prefix, entry)
            into[snapshot.key] = snapshot
    return [entry[0].decode() for entry in reply if len(entry) == 1]


def _snapshot(prefix: str, entry: list[Any]) -> LockSnapshot:
    key, kind, capacity, more_holders, more_waiters, kept_ms, holders, line = entry
    text = key.decode(errors="replace")
    return LockSnapshot(
        text,
        _KINDS[kind.decode()],
        _name(text[len(prefix) + 1 :]),
        capacity,
        tuple(
            LockHolder(
                _holder(owner, request),
                request.decode(errors="replace"),
                fence,
                units,
                remaining_ms / 1000,
                held / 1000,
            )
            for owner, request, fence, units, remaining_ms, held in holders
        ),
        tuple(
            LockWaiter(_waiter(owner, request), request.decode(errors="replace"), units, waited / 1000)
            for owner, request, units, waited in line
        ),
        more_holders,
        more_waiters,
        kept_ms / 1000,
    )


def _name(key: str) -> str:
    tag, _, rest = key.partition(":")[2].partition("}")
    return f"{slots.queue_of(tag)}/{names.shown(rest.removeprefix(':lock:'))}" if rest else names.shown(tag)


def _holder(owner: bytes, request: bytes) -> Holder:
    # `~` ends the owner of a grant that may have another holder by now: a sticky lock, or a lock that is being
    # transferred to an adopter. So its thread or asyncio task does not count as the holder: no waiter has that name.
    return read(owner.decode(errors="replace"), request.decode(errors="replace"))


def _waiter(owner: bytes, request: bytes) -> Holder:
    # a waiter is always the thread or asyncio task itself
    text = request.decode(errors="replace")
    return read(owner.decode(errors="replace").partition("~")[0], text.removeprefix(STICKY))


def _resource(lock: LockSnapshot) -> Resource:
    holders = {held.holder.owner for held in lock.holders} if lock.kind in ("lock", "queuelock") else ()
    return Resource(
        f"{lock.kind} {lock.name}",
        lock.capacity,
        tuple(Share(held.holder.owner, held.units) for held in lock.holders),
        # if the reply of a grant was lost, the owner's next call receives the lock
        tuple(Share(waiter.holder.owner, waiter.units) for waiter in lock.line if waiter.holder.owner not in holders),
    )


def _still(first: LockSnapshot, second: LockSnapshot) -> LockSnapshot:
    """Return the holders and waiters that exist in both snapshots; a new request has waited for less time."""
    fences = {held.fence for held in first.holders}
    waited = {waiter.request: waiter.waited for waiter in first.line}
    return replace(
        second,
        holders=tuple(held for held in second.holders if held.fence in fences),
        line=tuple(waiter for waiter in second.line if waiter.waited >= waited.get(waiter.request, inf)),
    )
