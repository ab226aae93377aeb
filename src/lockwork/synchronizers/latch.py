"""The latch: `lw.latch("boot", 3).wait()`."""

from __future__ import annotations

from lockwork.config import Config
from lockwork.durations import Duration, in_milliseconds, milliseconds, seconds
from lockwork.errors import ConfigError
from lockwork.ids import new_id
from lockwork.naming import literal
from lockwork.protocol import keys, names
from lockwork.protocol.effects import Protocol
from lockwork.protocol.synchronizers import latch as latch_protocol
from lockwork.protocol.synchronizers.latch import LatchRequest, LatchStatus
from lockwork.runtime.clock import REMEMBERED
from lockwork.runtime.runtime import Runtime
from lockwork.validation import whole

MOST = 1_000_000


class Latch:
    """A handle to one named latch, which opens when it is counted down to zero; threads and tasks may share it."""

    def __init__(self, runtime: Runtime, config: Config, name: str, count: int, ttl: Duration) -> None:
        self.name: str = literal(name, "a latch's name")
        self._runtime = runtime
        ttl_ms = milliseconds(ttl, "ttl")
        again = min(config.patience, REMEMBERED)
        if ttl_ms < in_milliseconds(again):
            raise ConfigError(f"ttl must be at least {again:g} s, for which a call may be sent again, not {ttl!r}")
        self._counted = LatchRequest(
            keys.latch(config.prefix, name), names.display(name), whole(count, "count", 1, MOST), ttl_ms
        )

    def count_down(self, n: int = 1) -> int:
        """Count down by `n` and return the rest; at 0 the latch opens, and stays open until it is reset or deleted."""
        return self._runtime.run(latch_protocol.count_down(self._counted, new_id(), whole(n, "n", 1, MOST)))

    async def acount_down(self, n: int = 1) -> int:
        """Async version of `count_down`."""
        return await self._runtime.arun(latch_protocol.count_down(self._counted, new_id(), whole(n, "n", 1, MOST)))

    def wait(self, timeout: Duration | None = None) -> bool:
        """Wait up to `timeout` until it opens (None: no limit); False after the time-out."""
        return self._runtime.run(self._wait(timeout))

    async def await_(self, timeout: Duration | None = None) -> bool:
        """Async version of `wait`; the underscore is there because `await` is a keyword."""
        return await self._runtime.arun(self._wait(timeout))

    def inspect(self) -> LatchStatus:
        """Read the rest of the count, and whether the latch is open."""
        return self._runtime.run(latch_protocol.status(self._counted))

    async def ainspect(self) -> LatchStatus:
        """Async version of `inspect`."""
        return await self._runtime.arun(latch_protocol.status(self._counted))

    def reset(self) -> None:
        """Close it again with the full count. Waiters of the last opening pass; current waiters continue to wait."""
        self._runtime.run(latch_protocol.reset(self._counted, new_id()))

    async def areset(self) -> None:
        """Async version of `reset`."""
        await self._runtime.arun(latch_protocol.reset(self._counted, new_id()))

    def _wait(self, timeout: Duration | None) -> Protocol[bool]:
        limit = None if timeout is None else seconds(timeout, "timeout", zero=True)
        return latch_protocol.wait(self._counted, self._runtime.channel, limit)

    def __repr__(self) -> str:
        return f"<Latch {self._counted.name!r} count={self._counted.count}>"
