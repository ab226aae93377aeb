"""How long a queue makes its jobs wait: the age of the oldest ready one, from ids alone.

Jobs carry no time stamp of their own, so that waiting ones stay small. An id tells when its job was enqueued. A job
that was delayed, or failed before, is older than its wait; so the newest of the first few counts, and no list has made
anybody wait longer than since it was last seen empty.
"""

from __future__ import annotations

from lockwork.ids import made_at
from lockwork.protocol.queues.sessions import Heads


class Backlog:
    """Remembers when each ready list of one queue was last seen empty."""

    def __init__(self) -> None:
        self._empty: dict[int, int] = {}

    def age(self, heads: Heads) -> float:
        """Return how many seconds the oldest ready job has waited, about; 0 when none is ready."""
        oldest = 0
        for level, ids in enumerate(heads.first):
            if not ids:
                self._empty[level] = heads.at_ms
                continue
            times = [time for id in ids if (time := made_at(id)) is not None]
            since = max([*times, self._empty.get(level, 0)]) or heads.at_ms
            oldest = max(oldest, heads.at_ms - since)
        return oldest / 1000
