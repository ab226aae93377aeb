"""Partitions of queues: their number, and the partition of a name.

The partition's number is the CRC-32 of the name's stored text (`names.stored`), modulo the number of partitions: the
same in every process, and documented.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import choice
from zlib import crc32

from lockwork.errors import ConfigError
from lockwork.protocol.keys import MOST_PARTITIONS, base_queue, checked_queue, whole_queue
from lockwork.protocol.names import shown
from lockwork.protocol.queue import record_header


def numbered(name: str, count: int) -> int:
    """Return the number, from 0, of the partition of a stored name among `count` partitions."""
    return crc32(name.encode()) % count


def routing_name(record: bytes) -> str | None:
    """Return the stored name that decides a job's partition: its key, else group, else unique name; None if unnamed."""
    names = record_header.names(record)
    return names.key or names.group or names.unique or None


@dataclass(frozen=True, slots=True)
class Partitions:
    """The partitioned queues of an app."""

    counts: Mapping[str, int] = field(default_factory=dict[str, int], hash=False)

    @classmethod
    def read(cls, given: object) -> Partitions:
        """Check the setting `partitions`; raises ConfigError."""
        if not isinstance(given, Mapping):
            raise ConfigError(f'partitions says how many each queue has, such as {{"mail": 4}}, not {given!r:.60}')
        for name, count in given.items():
            whole_queue(name, "a queue's name in partitions")
            if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST_PARTITIONS:
                raise ConfigError(f"queue {name!r} can have 1 to {MOST_PARTITIONS} partitions, not {count!r}")
            checked_queue(f"{name}/{count - 1}")  # it must not be too long
        return cls(dict(given))

    def __contains__(self, queue: object) -> bool:
        return isinstance(queue, str) and queue in self.counts

    def names(self, queue: str) -> list[str]:
        """Return the partitions of a queue, or the queue itself if it has none."""
        count = self.counts.get(queue)
        return [queue] if count is None else [f"{queue}/{number}" for number in range(count)]

    def place(self, queue: str, name: str) -> str:
        """Return the partition of a stored name, or the queue itself if it has no partitions."""
        count = self.counts.get(queue)
        return queue if count is None else f"{queue}/{numbered(name, count)}"

    def random(self, queue: str) -> str:
        """Return a random partition, or the queue itself if it has none."""
        return choice(self.names(queue)) if queue in self.counts else queue  # noqa: S311 - nobody gains by guessing

    def single(self, queue: str, what: str) -> str:
        """Check the name of one partition, or of one queue without partitions; raises ConfigError."""
        name = checked_queue(queue)
        if name in self.counts:
            raise ConfigError(
                f"queue {name!r} has {self.counts[name]} partitions: find {what} by its partition, such as "
                f"{name + '/0'!r}, which its attribute `queue` names"
            )
        return name

    def belongs(self, home: str, queue: str, record: bytes, what: str) -> bool:
        """Return True if a job of `queue` can be enqueued in `home`, the queue or partition of `what`.

        Raises ConfigError if the job's key, group or unique name decides another partition.
        """
        if queue == home:
            return True
        if queue != base_queue(home) or queue not in self.counts:
            return False
        name = routing_name(record)
        if name is not None and (decided := self.place(queue, name)) != home:
            raise ConfigError(
                f"{what} lives on partition {home!r}, and {shown(name)!r}, the key or group of the job, decides "
                f"partition {decided!r}: one atomic step needs one partition; give both the same name, or leave key "
                "and group out"
            )
        return True
