"""The methods of `Lockwork` for synchronizers."""

from __future__ import annotations

from lockwork.app.state import AppState
from lockwork.durations import Duration
from lockwork.protocol.effects import Protocol
from lockwork.protocol.keys import checked
from lockwork.protocol.synchronizers import limiter as protocol
from lockwork.protocol.synchronizers.limiter import Algorithm, LimiterOverview
from lockwork.synchronizers.barrier import Barrier
from lockwork.synchronizers.latch import Latch
from lockwork.synchronizers.limiter import Limiter
from lockwork.synchronizers.once import Once
from lockwork.validation import whole


class SynchronizerMethods(AppState):
    """Handles of latches, barriers, limiters and onces."""

    def latch(self, name: str, count: int, *, ttl: Duration = "1d") -> Latch:
        """A latch that opens when it has been counted down from `count` to zero, and then stays open.

        Args:
            name: names the latch.
            count: the initial count; the first call of any process that uses the latch sets it.
            ttl: the latch is deleted this long after its last change. Default "1d".
        """
        return Latch(self.runtime, self.config, name, count, ttl)

    def barrier(self, name: str, parties: int) -> Barrier:
        """A reusable barrier at which `parties` wait for each other.

        Args:
            name: names the barrier.
            parties: number of callers of `wait` that open it. A party whose process died counts for 15 s at most.
        """
        return Barrier(self.runtime, self.config, name, parties)

    def limiter(self, name: str, rate: str, *, burst: int | None = None, algorithm: Algorithm = "bucket") -> Limiter:
        """A rate limit for all processes together.

        As a decorator, the name may contain arguments of the function: `@lw.limiter("user:{user_id}", "5/m")`.

        Args:
            name: names the limiter.
            rate: units per time, such as "100/s", "5/m" or "10/30s".
            burst: units that a "bucket" allows at once; None (default): the units of the rate.
            algorithm: "bucket" (default) refills evenly. "window" never allows more than the rate's units in any
                period, and remembers each unit for one period.
        """
        return Limiter(self.runtime, self.config, name, rate, burst, algorithm)

    def limiters(self, pattern: str = "*", *, limit: int = 200) -> LimiterOverview:
        """List up to `limit` recently used limiters that match, with their rates, free units and waiting callers.

        `pattern` is a name with *, ? and [...]. Limiters have no index, so it scans up to 100,000 keys of the server.
        """
        return self.runtime.run(self._limiters(pattern, limit))

    async def alimiters(self, pattern: str = "*", *, limit: int = 200) -> LimiterOverview:
        """Async version of `limiters`."""
        return await self.runtime.arun(self._limiters(pattern, limit))

    def _limiters(self, pattern: str, limit: int) -> Protocol[LimiterOverview]:
        checked(pattern, "a pattern of limiters' names")
        return protocol.overview(self.config.prefix, pattern, whole(limit, "limit", 1, 10_000))

    def once(
        self, name: str, every: Duration = "1d", *, wait: Duration | None = None, again_if_lost: bool = False
    ) -> Once:
        """Run a function at most once per period in all processes; other callers get the result or failure of that run.

        As a decorator, the name may contain arguments of the function: `@lw.once("report:{day}", every="1d")`.

        Args:
            name: names the function that runs once.
            every: the period, counted from 1970 in UTC. Default "1d".
            wait: maximum time to wait for a run in progress. None (default): until it ends. 0: do not wait.
            again_if_lost: run again in the same period if the process of the first run died. Default False.
        """
        return Once(self.runtime, self.config, name, every, wait=wait, again_if_lost=again_if_lost)
