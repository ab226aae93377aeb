"""The method of Lockwork that hands out fenced registers."""

from __future__ import annotations

from lockwork.config import Config
from lockwork.locks.fenced_register import Register
from lockwork.runtime.runtime import Runtime


class Fencing:
    """Part of Lockwork: stores that check fences."""

    runtime: Runtime
    config: Config

    def fenced(self, name: str) -> Register:
        """A value on the server that only the newest holder of a lock can write: `set(value, grant)`, `get()`."""
        return Register(self.runtime, self.config, name)
