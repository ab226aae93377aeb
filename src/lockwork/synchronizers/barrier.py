"""The barrier: `lw.barrier("phase", 8).wait()`."""

from __future__ import annotations

from lockwork.config import Config
from lockwork.durations import Duration, seconds
from lockwork.ids import new_id
from lockwork.naming import literal
from lockwork.protocol import keys, names
from lockwork.protocol.effects import Protocol
from lockwork.protocol.synchronizers import barrier as barrier_protocol
from lockwork.protocol.synchronizers.barrier import Arrival, BarrierStatus
from lockwork.runtime.runtime import Runtime
from lockwork.validation import whole

MOST = 10_000


class Barrier:
    """A handle to one named barrier; threads and tasks may share it, and each call of `wait` is one party."""

    def __init__(self, runtime: Runtime, config: Config, name: str, parties: int) -> None:
        self.name: str = literal(name, "a barrier's name")
        self.parties: int = whole(parties, "parties", 1, MOST)
        self._runtime = runtime
        self._keys = keys.barrier(config.prefix, name)

    def wait(self, timeout: Duration | None = None) -> int:
        """Wait up to `timeout` until all parties have arrived; returns this party's position by arrival, from 0.

        Raises WaitTimeout; then this party no longer counts. The next generation may begin at once.
        """
        return self._runtime.run(self._wait(timeout))

    async def await_(self, timeout: Duration | None = None) -> int:
        """Async version of `wait`; if cancelled, the party no longer counts, unless the barrier had opened.

        It has an underscore because `await` is a keyword.
        """
        return await self._runtime.arun(self._wait(timeout))

    def inspect(self) -> BarrierStatus:
        """Read how many parties have arrived and wait for the others."""
        return self._runtime.run(barrier_protocol.status(self._keys, self.parties))

    async def ainspect(self) -> BarrierStatus:
        """Async version of `inspect`."""
        return await self._runtime.arun(barrier_protocol.status(self._keys, self.parties))

    def _wait(self, timeout: Duration | None) -> Protocol[int]:
        limit = None if timeout is None else seconds(timeout, "timeout", zero=True)
        arrival = Arrival(self._keys, names.display(self.name), self.parties, new_id(), self._runtime.channel)
        return barrier_protocol.wait(arrival, limit)

    def __repr__(self) -> str:
        return f"<Barrier {names.display(self.name)!r} parties={self.parties}>"
