"""Indexes of the names of queues, stocks, limiters and locks in use. Lists read them instead of scanning all keys.

A name is in the index of its kind, with the server's time when a process last added it. Processes add names in separate
calls. So an index may lack a new name for a moment, and may have names whose keys no longer exist.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from lockwork.protocol import slots
from lockwork.protocol.effects import Argument, Indexed, Protocol, Shards, concurrently, on_each_shard, script_call

_PAGE = 1000
_TOGETHER = 500
"""Number of names per call to add, and of keys per call to check for existence."""
_SCAN = 500
_DAY = 86_400_000
_SIGNS = re.compile(r"[\\*?\[\]]")


class IndexedKind(NamedTuple):
    """A kind of objects that has an index, with the limits of that index."""

    word: str
    pattern: re.Pattern[str]
    """Matches the key (without prefix) of an existing object; a group captures each part of the object's name."""
    form: str
    """Format of the key, from the parts of a name."""
    aged_ms: int
    """A name that was not added for this time (ms) is checked, and deleted if its key does not exist."""
    most: int = 0
    """Limit of stored names, the newest first; 0: no limit."""

    def index_key(self, prefix: str) -> str:
        """Return the key of the index."""
        return f"{prefix}:{{lockwork}}:index:{self.word}"

    def name(self, prefix: str, key: str) -> str | None:
        """Return the name of the object that has a key; None if it is of another kind."""
        match = self.pattern.fullmatch(key, len(prefix) + 1)
        return " ".join(match.groups()) if match else None

    def key(self, prefix: str, name: str) -> str:
        """Return the key of an object."""
        return f"{prefix}:{self.form.format(*name.split(' '))}"


QUEUES = IndexedKind("queues", re.compile(r"\{q:([^{}]+)\}:stats"), "{{q:{}}}:stats", _DAY)
"""Names are hash tags; the tag of a partition has its suffix."""
STOCKS = IndexedKind("stocks", re.compile(r"\{q:([^{}]+)\}:stock:([^{}]+)"), "{{q:{}}}:stock:{}", _DAY)
LIMITERS = IndexedKind("limiters", re.compile(r"\{limiter:([^{}]+)\}"), "{{limiter:{}}}", 3_600_000, 10_000)
LOCKS = IndexedKind(
    "locks", re.compile(r"(\{(?:lock|sem|rw|quorum):[^{}]+\}|\{q:[^{}]+\}:lock:[^{}]+)"), "{}", 300_000, 100_000
)
"""Names are keys without the prefix. Each minute, processes add again the locks that they hold or wait for."""
KINDS = (QUEUES, STOCKS, LIMITERS, LOCKS)


def kind_of(prefix: str, key: str) -> tuple[IndexedKind, str] | None:
    """Return the kind and the name of the object that has a key; None if it has no index."""
    return next(((kind, name) for kind in KINDS if (name := kind.name(prefix, key)) is not None), None)


def put(prefix: str, kind: IndexedKind, names: Sequence[str]) -> Protocol[None]:
    """Add names to an index, and delete a few old names whose objects do not exist."""
    for at in range(0, len(names), _TOGETHER):
        args: list[Argument] = [kind.most, kind.aged_ms, *names[at : at + _TOGETHER]]
        _, *aged = yield script_call("index/put", kind.index_key(prefix), args)
        if aged:
            yield from _check(prefix, kind, {name.decode(): added for name, added in _pairs(aged)})


def _check(prefix: str, kind: IndexedKind, aged: Mapping[str, int]) -> Protocol[None]:
    """Delete names whose objects do not exist, and add the other names again."""
    present = yield from existing(prefix, kind, aged)
    gone: list[Argument] = []
    for name in aged.keys() - present:
        gone += (name, aged[name])
    if gone:
        yield script_call("index/drop", kind.index_key(prefix), gone)
    if present:
        yield script_call("index/put", kind.index_key(prefix), [kind.most, kind.aged_ms, *present])


def read(prefix: str, kind: IndexedKind) -> Protocol[list[str]]:
    """Read all names of an index, the newest first, and the names that this process has not yet added."""
    names = dict.fromkeys((yield Indexed(kind.word)))
    began, skip, page = "", 0, [b""]
    while page:
        now, page = yield script_call("index/read", kind.index_key(prefix), [skip, _PAGE, ""])
        began, skip = began or str(now), skip + _PAGE
        names |= dict.fromkeys(name.decode(errors="replace") for name in page)
        if len(page) < _PAGE:
            break
    if skip > _PAGE:  # a name that was added again meanwhile has moved, and may have been on no page
        _, page = yield script_call("index/read", kind.index_key(prefix), [0, 10 * _PAGE, began])
        names |= dict.fromkeys(name.decode(errors="replace") for name in page)
    return [name for name in names if kind.name(prefix, kind.key(prefix, name)) == name]


def existing(prefix: str, kind: IndexedKind, names: Iterable[str]) -> Protocol[list[str]]:
    """Return the names whose objects exist."""
    all_names = list(names)
    # on a Cluster, the keys of one call lie in one slot
    step = _TOGETHER if (yield Shards()) == 1 else 1
    parts = [all_names[at : at + step] for at in range(0, len(all_names), step)]
    flags = yield from concurrently([_exist(prefix, kind, part) for part in parts])
    return [
        name for part, exist in zip(parts, flags, strict=True) for name, there in zip(part, exist, strict=True) if there
    ]


def _exist(prefix: str, kind: IndexedKind, names: Sequence[str]) -> Protocol[list[int]]:
    reply: list[int] = yield script_call("index/exist", [kind.key(prefix, name) for name in names])
    return reply


def queues(prefix: str) -> Protocol[list[str]]:
    """Return the names of the queues that ever had a job or are served by a worker."""
    names = yield from read(prefix, QUEUES)
    return sorted(slots.queue_of(tag) for tag in (yield from existing(prefix, QUEUES, names)))


def scan(prefix: str) -> Protocol[dict[IndexedKind, list[str]]]:
    """Find the objects of all kinds with a scan of all keys of the server, in bounded steps."""
    begins = f"{prefix}:{{"
    match = f"{_SIGNS.sub(_escaped, begins)}*"

    def walk(shard: int) -> Protocol[set[tuple[IndexedKind, str]]]:
        objects, cursor = set[tuple[IndexedKind, str]](), ""
        while cursor != "0":
            step = yield replace(script_call("index/scan", [], [cursor or "0", match, _SCAN]), shard=shard)
            keys = [key.decode(errors="replace") for key in step[1]]
            objects.update(thing for key in keys if key.startswith(begins) and (thing := kind_of(prefix, key)))
            cursor = step[0].decode()
        return objects

    objects = set[tuple[IndexedKind, str]]().union(*(yield from on_each_shard(walk)))
    return {kind: sorted(name for each, name in objects if each is kind) for kind in KINDS}


def _escaped(sign: re.Match[str]) -> str:
    return "\\" + sign[0]


def _pairs(entries: Sequence[bytes | int]) -> Iterable[tuple[bytes, int]]:
    return zip(entries[::2], entries[1::2], strict=True)  # type: ignore[arg-type]  # names, and when they were added
