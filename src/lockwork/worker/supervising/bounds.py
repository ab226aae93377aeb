"""Keeping the dead set of a queue within its bounds: a little at every heartbeat, never all at once."""

from __future__ import annotations

from lockwork.errors import LockworkError
from lockwork.logs import Log
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queues import dead_moves
from lockwork.protocol.queues.dead_moves import Bounds
from lockwork.runtime.clock import now
from lockwork.runtime.runtime import Runtime

log: Log = Log("lockwork.worker")

_PAUSE = 5.0
"""Seconds between two looks when everything is within the bounds."""
_LAST = 1.0
"""Seconds that the last look may take, at all queues together."""
_TROUBLED = 60.0
"""Seconds until the next try after an error: a key of another type is not mended soon."""


class Keeper:
    """Keeps the dead sets of one worker's queues."""

    def __init__(self, runtime: Runtime, bounds: Bounds) -> None:
        self._runtime = runtime
        self._bounds = bounds
        self._next: dict[str, float] = {}

    def keep(self, name: str, keys: QueueKeys) -> bool:
        """Make one call if it is time for one; whether there is more to do. Never raises a LockworkError."""
        if now() < self._next.get(name, 0.0):
            return False
        try:
            gone, more = self._runtime.run(dead_moves.trim(keys, self._bounds))
        except LockworkError as error:
            log.warning("the dead jobs of queue %s are not kept within their bounds: %s", name, error)
            self._next[name] = now() + _TROUBLED
            return False
        if gone:
            log.info("%d dead jobs of queue %s were over the bounds, and are deleted", gone, name)
        self._next[name] = now() + (0.0 if more else _PAUSE)
        return more

    def finish(self, queues: dict[str, QueueKeys]) -> None:
        """Keep the bounds once more: the next worker of these queues may come late, or never."""
        end = now() + _LAST
        for name, keys in queues.items():
            self._next.pop(name, None)
            while now() < end and self.keep(name, keys):
                pass
