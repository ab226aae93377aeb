"""The method of Lockwork that shows all locks at once."""

from __future__ import annotations

from lockwork.config import Config
from lockwork.protocol.keys import checked
from lockwork.protocol.locks import overview as protocol
from lockwork.protocol.locks.overview import Overview
from lockwork.runtime.runtime import Runtime


class Overviews:
    """Part of Lockwork: looking at everything that is held or waited for."""

    runtime: Runtime
    config: Config

    def locks(self, pattern: str = "*") -> Overview:
        """All locks, read-write locks and semaphores that match: holders, waiting lines, and every deadlock.

        `pattern` is a name with *, ? and [...]. The locks are read one after the other, in bounded steps; a deadlock is
        reported only when a second look has confirmed it.
        """
        return self.runtime.run(protocol.look(self.config.prefix, _pattern(pattern)))

    async def alocks(self, pattern: str = "*") -> Overview:
        """The same for a task."""
        return await self.runtime.arun(protocol.look(self.config.prefix, _pattern(pattern)))


def _pattern(pattern: str) -> str:
    return checked(pattern, "a pattern of locks' names")
