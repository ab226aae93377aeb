"""Schedules that are created at run time: the call that creates them, and the worker's side that fires them.

The server stores for each schedule when a worker must look at it next. A worker reads the schedules whose look is due,
computes their slots, and sends the slots together with the next look. A definition that it cannot read stays due, so
that another worker fires it.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from lockwork.errors import ConfigError
from lockwork.protocol.effects import Argument, Protocol, script_call
from lockwork.protocol.keys import QueueKeys, channel

_PAGE = 500
"""Number of schedules per call."""
NEVER = 1 << 53
"""The slot after the last one, ms."""
_AGAIN = 1.0
"""Seconds until the next look after a definition that this process cannot read."""


class SlotRules(Struct, frozen=True):
    """How slots are computed and enqueued. All times are in ms since 1970, by the server's clock."""

    after: Callable[[int], int]
    """Returns the first slot after a time, or NEVER."""
    latest: Callable[[int, int, int], list[int]]
    """Returns the newest slots after a time and up to another, limited in number, in their order."""
    catch_up: int
    """Limit of slots to enqueue when several are due; the newest are enqueued."""
    late_ms: int
    """Maximum delay (ms) of a slot that is still enqueued; 0: no limit."""
    overlap: bool


ReadRules = Callable[[bytes], SlotRules]
"""Reads a definition; raises ConfigError if this process cannot."""


class DueSchedule(Struct, frozen=True):
    """A created schedule that a worker must look at."""

    name: str
    digest: str
    cursor: int
    rules: SlotRules


class DuePage(Struct, frozen=True):
    """Created schedules whose look is due, as far as this process can read them."""

    at_ms: int
    """The server's clock."""
    schedules: list[DueSchedule]


class CreatedSchedules:
    """The created schedules of one queue, as one worker sees them."""

    def __init__(self, queue: QueueKeys, read: ReadRules) -> None:
        self._queue = queue
        self._read = read
        self.count: int = 0
        """Number of created schedules at the last call."""
        self.look_at: int = NEVER
        """The next look, ms by the server's clock."""
        self._unreadable: frozenset[tuple[str, str]] = frozenset()
        """Names and digests of due schedules that this process cannot read."""

    def look(self) -> None:
        """Look in the next turn."""
        self.look_at = 0

    def due(self, patience: float) -> Protocol[DuePage]:
        """Read the first page with a due schedule that this process can read, or the last page."""
        unreadable = set[tuple[str, str]]()
        while True:
            args: list[Argument] = [len(unreadable), _PAGE]
            at_ms, self.count, next_look, *rows = yield script_call("schedules/due", self._queue, args, patience)
            due = list[DueSchedule]()
            for at in range(0, len(rows), 4):
                name, digest, cursor, definition = rows[at : at + 4]
                try:
                    due.append(DueSchedule(name.decode(), digest.decode(), cursor, self._read(definition)))
                except ConfigError:
                    unreadable.add((name.decode(), digest.decode()))
            if due or len(rows) < 4 * _PAGE:
                break
        self.look_at = next_look if next_look >= 0 else NEVER
        if unreadable - self._unreadable:
            # other changes send no message while the look of this one is due
            self.look_at = min(self.look_at, at_ms + int(_AGAIN * 1000))
        self._unreadable = frozenset(unreadable)
        return DuePage(at_ms, due)


def create(
    queue: QueueKeys, name: str, digest: str, timing: str, definition: bytes, record: bytes, begin: int
) -> Protocol[int]:
    """Create or change a schedule; return a code of schedules/create. begin: see there."""
    args: list[Argument] = [name, digest, timing, definition, record, begin, channel(queue.prefix, "")]
    return int((yield script_call("schedules/create", queue, args)))


def delete(queue: QueueKeys, name: str) -> Protocol[int]:
    """Delete a created schedule; return a code of schedules/delete."""
    return int((yield script_call("schedules/delete", queue, [0, name])))
