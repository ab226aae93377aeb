"""Announcements of workers and apps on the server, and orders to workers."""

from __future__ import annotations

from typing import Literal, NamedTuple

from lockwork.protocol.effects import Argument, Protocol, script_call
from lockwork.protocol.keys import channel

Order = Literal["quiet", "resume", "stop"]

TICKET = "orders"
"""Ticket of the message that an order waits for the process."""


class AnnouncementKeys(NamedTuple):
    """Records by name, the names by the time of their last announcement, and the orders to these names."""

    facts: str
    seen: str
    orders: str


class Kind(NamedTuple):
    """A kind of announcements, with its limits."""

    word: str
    kept_ms: int
    """Time to live of an announcement after its last write, in ms."""
    most: int
    page: int
    """Number of announcements per call to read."""

    orders: str

    def keys(self, prefix: str) -> AnnouncementKeys:
        """Return the keys of this kind."""
        base = f"{prefix}:{{lockwork}}"
        return AnnouncementKeys(f"{base}:{self.word}", f"{base}:{self.word}:seen", f"{base}:{self.orders}")


WORKERS = Kind("workers", 3_600_000, 1000, 100, "orders")
APPS = Kind("apps", 30 * 86_400_000, 1000, 10, "apps:orders")  # never written: app announcers may order no worker


class Announcement(NamedTuple):
    """An announcement: `age` is the seconds since it was written, `seen` is that time in ms."""

    name: str
    record: bytes
    seen: int
    age: float


def put(
    prefix: str, kind: Kind, name: str, record: bytes, handled: str = "", *, family: str = "", replaced_ms: int = 0
) -> Protocol[str]:
    """Announce a record, or delete the announcement if the record is empty; return the waiting order, or "".

    family: other names that begin with it are deleted `replaced_ms` after their last announcement.
    """
    args: list[Argument] = [name, record, kind.kept_ms, kind.most, handled]
    reply = yield script_call("announcements/put", kind.keys(prefix), [*args, family, replaced_ms] if family else args)
    order: str = reply[1].decode()
    return order


def order(prefix: str, name: str, word: Order, silent_ms: int) -> Protocol[bool]:
    """Store an order for a worker that announced itself in the last `silent_ms`; return False without such a worker."""
    args: list[Argument] = [name, word, channel(prefix, name), silent_ms, WORKERS.kept_ms]
    return bool((yield script_call("announcements/order", WORKERS.keys(prefix), args)))


def read(prefix: str, kind: Kind) -> Protocol[list[Announcement]]:
    """Read all announcements of a kind, in bounded steps, by name."""
    by_name: dict[str, Announcement] = {}
    # each step overlaps the previous one, because a name that was written meanwhile has moved to the end
    for skip in range(0, 2 * kind.most, kind.page):
        now, *entries = yield script_call("announcements/read", kind.keys(prefix), [skip, kind.page])
        for at in range(0, len(entries), 3):
            name, seen, record = entries[at].decode(errors="replace"), entries[at + 1], entries[at + 2]
            by_name[name] = Announcement(name, record, seen, max(0.0, (now - seen) / 1000))
        if len(entries) < 3 * kind.page:
            break
    return [by_name[name] for name in sorted(by_name)]
