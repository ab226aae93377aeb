"""The end of a page of jobs: one position for all queues and places, independent of their number."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import NamedTuple

from lockwork.hashes import blake2b
from lockwork.protocol.queue import records

STAGES: tuple[tuple[str, ...], ...] = (
    ("running",),
    ("ready:0", "ready:1", "ready:2", "groups"),
    ("came",),
    ("suspects",),
    ("due",),
    ("blocked",),
    ("dead", "history"),
)
"""The places; pages show one stage after the other."""
LISTS = 1
"""The stage whose entries have no time: a page takes the same number of entries from each list."""
BLOCKED = 5
"""The stage whose entries have no order: queues are read one after the other."""
PLACES: frozenset[str] = frozenset(place for stage in STAGES for place in stage)
_LONGEST = 2000
_LARGEST = 1 << 53
"""Scripts cannot represent larger integers."""
_LARGEST_SCAN = 1 << 64


class Position(NamedTuple):
    """A position: entries before it were shown or do not match.

    In places with times, it is a score (due jobs in ms, others in µs) and the id of the last entry. In lists, it is the
    last index that was read, and the last list that was read at this index. For blocked jobs, it is the queue, the
    cursor of its scan, and the number of jobs of that step that were already shown.
    """

    stage: int
    newest: bool
    at: int = -1
    """-1: the beginning of the stage."""
    id: str = ""
    source: str = ""
    """The mark of a list or of a queue, see `mark`."""

    def text(self) -> str:
        """Return the position as text, less than 200 characters for an id of the usual length."""
        return urlsafe_b64encode(json.dumps(self, separators=(",", ":")).encode()).decode()


def read_position(text: str) -> Position:
    """Parse the text of a position; raises ValueError."""
    if len(text) > _LONGEST:
        raise ValueError(text)
    parts = json.loads(urlsafe_b64decode(text))  # unlike msgspec, json accepts ids that are not UTF-8
    kinds = [type(part) for part in parts] if isinstance(parts, list) else []
    if kinds != [int, bool, int, str, str]:
        raise ValueError(text)
    position = Position(*parts)
    most = _LARGEST_SCAN if position.stage == BLOCKED else _LARGEST
    if not (0 <= position.stage < len(STAGES) and -1 <= position.at < most):
        raise ValueError(text)
    if position.stage == BLOCKED and position.id and not (position.id.isdecimal() and len(position.id) < 10):
        raise ValueError(text)
    if not position.source.isascii():
        raise ValueError(text)
    records.raw(position.id)
    return position


def mark(queue: str, place: str) -> str:
    """Return a short name of a place of a queue; it also orders the lists at the same index."""
    return blake2b(f"{queue}\0{place}".encode("utf-8", "surrogateescape"), digest_size=6).hexdigest()
