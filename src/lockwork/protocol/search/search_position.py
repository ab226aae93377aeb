"""Where a page of jobs ended: one position for all queues and places, however many there are."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import blake2b
from typing import NamedTuple

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
"""The stage whose entries have no time: a page takes as many entries of each list."""
BLOCKED = 5
"""The stage whose entries have no order: one queue after the other."""
PLACES: frozenset[str] = frozenset(place for stage in STAGES for place in stage)
_LONGEST = 2000
_LARGEST = 1 << 53
"""Numbers above are no integers in a script."""
_LARGEST_SCAN = 1 << 64


class Position(NamedTuple):
    """What is before it was shown or does not match.

    Of places with times: a score (due in ms, others in µs) and the id of the last entry. Of lists: the last
    index that was passed, and up to which list. Of blocked jobs: the queue, the cursor of the scan there, and how many
    jobs of that step were passed.
    """

    stage: int
    newest: bool
    at: int = -1
    """-1: the beginning of the stage."""
    id: str = ""
    source: str = ""
    """The mark of a list or of a queue, see `mark`."""

    def text(self) -> str:
        """Write the position, in less than 200 characters for an id of the usual length."""
        return urlsafe_b64encode(json.dumps(self, separators=(",", ":")).encode()).decode()


def read_position(text: str) -> Position:
    """Read what `text` has written; raises ValueError."""
    if len(text) > _LONGEST:
        raise ValueError(text)
    found = json.loads(urlsafe_b64decode(text))  # unlike msgspec it knows ids that are no UTF-8
    kinds = [type(part) for part in found] if isinstance(found, list) else []
    if kinds != [int, bool, int, str, str]:
        raise ValueError(text)
    position = Position(*found)
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
    """Return a short name of a place of a queue, in whose order lists come at the same index."""
    return blake2b(f"{queue}\0{place}".encode("utf-8", "surrogateescape"), digest_size=6).hexdigest()
