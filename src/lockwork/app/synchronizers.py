"""The methods of Lockwork that hand out synchronizers."""

from __future__ import annotations

from lockwork.config import Config
from lockwork.durations import Duration
from lockwork.protocol.synchronizers.limiter import Algorithm
from lockwork.runtime.runtime import Runtime
from lockwork.synchronizers.barrier import Barrier
from lockwork.synchronizers.latch import Latch
from lockwork.synchronizers.limiter import Limiter
from lockwork.synchronizers.once import Once


class Synchronizers:
    """Part of Lockwork: what lets processes keep step with each other."""

    runtime: Runtime
    config: Config

    def latch(self, name: str, count: int, *, ttl: Duration = "1d") -> Latch:
        """A latch that opens when it has been counted down from `count` to zero, and then stays open.

        The first to touch it, by whatever call, closes it with `count`; it is forgotten `ttl` after its last change.
        """
        return Latch(self.runtime, self.config, name, count, ttl)

    def barrier(self, name: str, parties: int) -> Barrier:
        """A barrier at which `parties` wait for each other, again and again.

        A party whose process died counts for 15 s at most.
        """
        return Barrier(self.runtime, self.config, name, parties)

    def limiter(self, name: str, rate: str, *, burst: int | None = None, algorithm: Algorithm = "bucket") -> Limiter:
        """Let at most `rate` through, such as "100/s", "5/m" or "10/30s", in all processes together.

        A "bucket" refills evenly and lets `burst` units through at once (None: as many as the rate has). A "window"
        never lets more than the rate's units through in any period, and remembers each for that long.
        As a decorator, the name may be made of the function's arguments: `@lw.limiter("user:{user_id}", "5/m")`.
        """
        return Limiter(self.runtime, self.config, name, rate, burst, algorithm)

    def once(
        self, name: str, every: Duration = "1d", *, wait: Duration | None = None, again_if_lost: bool = False
    ) -> Once:
        """What runs at most once per period, anywhere: everybody else gets the result of that run, or its failure.

        `wait` is how long to wait for a run that goes on (None: until it ends, 0: not at all). A run whose process died
        is not repeated in its period, unless `again_if_lost`.
        As a decorator, the name may be made of the function's arguments: `@lw.once("report:{day}", every="1d")`.
        """
        return Once(self.runtime, self.config, name, every, wait=wait, again_if_lost=again_if_lost)
