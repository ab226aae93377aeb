"""Producers of unique jobs. Each name has its own terms, and each call its own arguments."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from lockwork.errors import LockworkError, QueueFull
from lockwork.protocol.queue import job_control as control
from lockwork.protocol.queue import record_header
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.unique import Terms, push_unique
from queues.simulation.queue_actors import WINDOW_MS, Plant
from queues.simulation.queue_view import DELIVERIES, Made
from simulator.process import Actor, Cancelled, Sleep
from simulator.world import Broken

NAMES = {
    "report": Terms("done", "keep"),
    "sync": Terms("start", "replace"),
    "mail": Terms("start", "keep"),
    "state": Terms("done", "replace"),
    "index": Terms("start", "debounce", 1500),
    "daily": Terms(3000, "keep"),
    "hourly": Terms(1500, "replace"),
}
PAUSE_MS = 800
"""Quiet time before a debounced job runs, ms."""


class UniqueCall(NamedTuple):
    """A call of a unique task."""

    name: str
    record: bytes
    made: Made


@dataclass
class UniquePlant(Plant):
    """The users of a queue with unique jobs."""

    calls: dict[str, UniqueCall] = field(default_factory=dict)
    """Calls by the id of their job if it is new."""
    refused: set[str] = field(default_factory=set)
    """Jobs whose producers received QueueFull."""

    def call(self, name: str) -> str:
        """Make a call; returns its id."""
        random, id = self.world.random, f"u{next(self.numbers):04}"
        level, key, most = random.choice([1, 1, 1, 0]), random.choice(["", "", "", "k"]), random.choice([1, 0])
        made = self.made[id] = Made(level, key, "", True, most)
        head = record_header.head(level, DELIVERIES, key, unique=NAMES[name].mark(name), deliveries=most)
        self.calls[id] = UniqueCall(name, head + b'["work",["%b"]]' % id.encode(), made)
        return id


def reviver(plant: UniquePlant) -> Actor:
    """Cancel unique jobs, and revive cancelled and dead ones, whose names may belong to other jobs now."""
    random, cancelled = plant.world.random, list[str]()
    for _ in range(random.choice([0, 4, 12])):
        with suppress(LockworkError, Cancelled):
            yield Sleep(random.uniform(0, 2))
            ended = [*cancelled, *(id for id in plant.dead() if id in plant.calls)]
            if ended and random.random() < 0.5:
                yield from control.revive(plant.queue, random.choice(ended))
            elif plant.acknowledged:
                id = random.choice(plant.acknowledged[-4:])
                yield from control.cancel(plant.queue, id, "sim", WINDOW_MS)
                cancelled.append(id)


def caller(plant: UniquePlant, rounds: int) -> Actor:
    """Call unique tasks, one or a few at a time."""
    random = plant.world.random
    for _ in range(rounds):
        with suppress(LockworkError, Cancelled):
            yield Sleep(random.choice([0.0, random.uniform(0, 1), random.uniform(0, 3)]))
            name = random.choice(list(NAMES))
            terms = NAMES[name]
            delay = PAUSE_MS if terms.meaning == "debounce" else random.choice([0, 0, 0, 1500])
            new = [NewJob(id := plant.call(name), plant.calls[id].record, delay) for _ in range(random.choice([1, 2]))]
            expires = random.choice([None, None, None, 1000, 4000])
            try:
                arrived = yield from push_unique(plant.queue, new, terms, expires)
            except QueueFull:
                plant.refused.update(job.id for job in new)
                continue
            for job, (id, arrival) in zip(new, arrived, strict=True):
                if plant.calls[id].name != name or (arrival == "new" and id != job.id):
                    raise Broken(f"calls of {name} met {arrived}")
                plant.acknowledged.append(id)
