"""What a worker was told to do, as the supervisor hands it to its children."""

from __future__ import annotations

import msgspec


class WorkerOptions(msgspec.Struct, frozen=True):
    """Durations in seconds; `app` is the text `module:object`."""

    app: str
    queues: list[str]
    processes: int
    concurrency: int
    lease: float
    grace: float


class ChildOrders(msgspec.Struct, frozen=True):
    """The first line a child reads: its options and the session under which it may lease jobs."""

    options: WorkerOptions
    session: str


STOP = b"stop\n"
"""The line that tells a child to finish what it has and go; the end of its input means that its supervisor is gone."""
