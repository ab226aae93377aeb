"""The deliveries of one queue to a worker process: some are read here, others return unread."""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock

from lockwork.protocol.queue import leases
from lockwork.protocol.queue.leases import Leased


class Deliveries:
    """Decides for each delivery if it may start here or returns to its queue unread.

    The event loop calls `read` with the received jobs. Another thread calls `take_unread` while a job blocks the loop.
    """

    __slots__ = ("_lock", "_taken", "last")

    def __init__(self) -> None:
        self.last: int = 0
        """Highest fence of the deliveries that the event loop has read."""
        self._lock = Lock()
        self._taken: set[tuple[str, bytes]] = set()

    def read(self, jobs: list[Leased]) -> list[Leased]:
        """Return the received jobs that may start; the other thread has taken the rest."""
        if not jobs:
            return jobs
        with self._lock:
            self.last = jobs[-1].fence
            deliveries = self._taken
            if deliveries:
                self._taken = {delivery for delivery in deliveries if leases.fence_of(delivery[1]) > self.last}
        return [job for job in jobs if (job.id, job.token) not in deliveries] if deliveries else jobs

    def take_unread(self, leased: Iterable[tuple[str, bytes]]) -> list[Leased]:
        """Take the leased jobs that the loop has not read; return them without records, the newest first.

        leased: ids and tokens of all jobs that are leased to this process. Skips jobs that an earlier call returned.
        """
        jobs = [Leased(id, token, b"", 0, leases.fence_of(token)) for id, token in leased]
        jobs.sort(key=lambda job: (job.fence, job.id), reverse=True)
        with self._lock:
            unread = [job for job in jobs if job.fence > self.last and (job.id, job.token) not in self._taken]
            self._taken.update((job.id, job.token) for job in unread)
        return unread

    def forget(self) -> None:
        """Reset the last fence to 0, because a server without this session's data may have an earlier clock."""
        with self._lock:
            self.last = 0
