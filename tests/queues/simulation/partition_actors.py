"""Workers of a queue with partitions. Each process shares its free places among all partitions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from lockwork.errors import LockworkError
from lockwork.protocol.effects import Clock, Park
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.messages import Hints
from lockwork.protocol.queue import leases, sessions
from lockwork.protocol.queue.leases import Batch
from queues.simulation.queue_actors import WINDOW_MS, Child, Plant
from queues.simulation.unique_queue_actors import UniqueCall, UniquePlant
from simulator.process import Actor, Sleep, Task

PARTITIONS = 3


@dataclass(eq=False)
class Source:
    """A child's view of a partition."""

    desk: Plant
    hints: Hints = field(default_factory=Hints)
    awake: bool = True
    """True if the partition may have jobs."""
    owed: bool = False
    """True if the partition woke the child, and the child has not fetched from it since."""
    passing: bool = False
    """True while the wake-up is being forwarded. A fetch must wait: a repeated forward would give its wake-ups away."""


@dataclass
class PartitionedPlant(Plant):
    """The users of all partitions. Each partition has its own acknowledged jobs; the partitions share the rest."""

    parts: list[UniquePlant] = field(init=False)

    def __post_init__(self) -> None:
        calls: dict[str, UniqueCall] = {}
        refused: set[str] = set()
        self.parts = [
            UniquePlant(
                self.world, QueueKeys("sim", f"{self.queue.name}/{number}"), self.sessions, self.gone, self.died,
                self.watchers, crews=self.crews, made=self.made, numbers=self.numbers, calls=calls, refused=refused,
            )
            for number in range(PARTITIONS)
        ]  # fmt: skip

    @property
    def desks(self) -> Sequence[Plant]:
        """All partitions."""
        return self.parts

    def served(self) -> list[Plant]:
        """Return the partitions that a child serves, in the order of its first fetches."""
        found = list(self.desks)
        self.world.random.shuffle(found)
        return found

    def _fetch(self, child: Child) -> Actor:
        """Fetch from the partitions that may have jobs, one after the other, while the child has free places."""
        sources = [Source(desk) for desk in self.served()]
        for request in itertools.count():
            while not child.free or not any(source.awake for source in sources):
                yield Park("places", (yield Clock()) + 3600)
            sources.append(sources.pop(0))
            for at, source in enumerate([source for source in sources if source.awake]):
                if not child.free:
                    break
                source.owed = False
                while source.passing:
                    yield Sleep(0.01)
                batch = yield from source.desk.reserve(child, f"{request:x}.{at}")
                if batch is None:
                    return
                if not batch.jobs:
                    source.awake = False
                    self.world.start(child.process, "doze", self._sleeper(child, source, batch), background=True)
            if not child.free:
                for source in [source for source in sources if source.owed]:
                    self.world.start(child.process, "pass on", self._passer(child, source), background=True)

    def _sleeper(self, child: Child, source: Source, batch: Batch) -> Callable[[Task], Actor]:
        return lambda _: self._doze(child, source, batch)

    def _doze(self, child: Child, source: Source, batch: Batch) -> Actor:
        """Sleep until the partition may have jobs."""
        offered = yield from leases.idle(source.desk.queue, batch, source.hints)
        source.awake = source.owed = True
        if offered is not None and self.takes(child):
            source.owed = False
            source.desk.begin(child, [offered])
        child.process.mail.deliver("places", "one")
        if not child.free and source.owed:
            yield from self.pass_on(child, source)

    def _passer(self, child: Child, source: Source) -> Callable[[Task], Actor]:
        return lambda _: self.pass_on(child, source)

    def pass_on(self, child: Child, source: Source) -> Actor:
        """Forward a wake-up that this child cannot use to another worker."""
        source.owed, source.passing = False, True
        yield Sleep(0)
        with suppress(LockworkError):
            queue, last = source.desk.queue, child.deliveries[source.desk.queue.name].last
            yield from sessions.forward_wakeup(queue, child.session, child.process.channel, last, WINDOW_MS, awake=True)
        source.passing = False
