"""Producers of a queue with partitions: apps with all kinds of tasks, which enqueue with Lockwork's own code."""

from __future__ import annotations

import itertools
from collections import Counter
from contextlib import suppress
from typing import Any

from lockwork import Lockwork
from lockwork.errors import LockworkError
from lockwork.protocol.queue.enqueue import NewJob
from queues.simulation.partition_actors import PARTITIONS, PartitionedPlant
from queues.simulation.queue_view import DELIVERIES, LIMITS, Made
from queues.simulation.unique_queue_actors import NAMES, PAUSE_MS, UniqueCall
from simulator.process import Actor, Cancelled, Sleep
from simulator.world import Broken


class Shop:
    """One process that enqueues, and its app."""

    def __init__(self, plant: PartitionedPlant, number: int) -> None:
        self.number = number
        self.plant = plant
        self._random = plant.world.random
        self._app = Lockwork("redis://127.0.0.1:1", prefix="sim", partitions={plant.queue.name: PARTITIONS})
        self._plain = self._task("plain")
        self._keyed = self._task("keyed", key="{name}")
        self._grouped = {group: self._task(group, **_limits(group)) for group in LIMITS if group}
        self._unique = {name: self._task(name, **_terms(name)) for name in NAMES}
        self.turns: Counter[str] = Counter()
        """Number of its plain calls in each partition."""
        self.unsure: int = 0
        """Number of plain calls whose partition is unknown, because the call failed."""

    def _task(self, name: str, **options: Any) -> Any:
        def work(name: str) -> None: ...

        task: Any = self._app.task(queue=self.plant.queue.name, name=name, retries=DELIVERIES - 1, **options)(work)
        task._turns = itertools.count(self._random.randrange(PARTITIONS))  # a random start, drawn from the seed
        self.route(task)
        return task

    def route(self, task: Any) -> None:
        """Leave the choice of partitions to the task; mutants override this."""

    def enqueue(self, rounds: int) -> Actor:
        """Enqueue one or a few jobs at a time: plain, with a key, of a group, or unique."""
        random = self._random
        for _ in range(rounds):
            with suppress(LockworkError, Cancelled):
                yield Sleep(random.choice([0.0, random.uniform(0, 1), random.uniform(0, 3)]))
                kind = random.choice(["plain", "keyed", "keyed", "grouped", "unique", "unique"])
                if kind == "unique":
                    yield from self._call(random.choice(list(NAMES)))
                else:
                    yield from self._send(kind)

    def _send(self, kind: str) -> Actor:
        random = self._random
        tasks = {"plain": self._plain, "keyed": self._keyed, "grouped": random.choice(list(self._grouped.values()))}
        task: Any = tasks[kind].options(delay=random.choice([0, 0, 0, random.uniform(0, 4)]))
        new = self._new(task, [random.choice("abcd") for _ in range(random.choice([1, 1, 4]))])
        self.unsure += kind == "plain"
        handles = yield from task._push(new)
        if [handle.id for handle in handles] != [job.id for job in new]:
            raise Broken(f"{new} were enqueued, and the handles are {handles}")
        if kind == "plain":
            self.unsure -= 1
            self.turns[handles[0].queue] += 1
        self._heard(handles)

    def _call(self, name: str) -> Actor:
        task: Any = self._unique[name]
        new = self._new(task, [name] * self._random.choice([1, 1, 2]))
        for job in new:
            self.plant.parts[0].calls[job.id] = UniqueCall(name, job.record, self.plant.made[job.id])
        handles = yield from task._push(new)
        for job, handle in zip(new, handles, strict=True):
            if self.plant.parts[0].calls[handle.id].name != name or (handle.new and handle.id != job.id):
                raise Broken(f"calls of {name} met {handles}")
        self._heard(handles)

    def _new(self, task: Any, names: list[str]) -> list[NewJob]:
        """Make jobs with ids that depend only on the seed."""
        made = task._builder.many([(name,) for name in names])
        new = [job._replace(id=f"j{next(self.plant.numbers):04}") for job in made]
        for job in new:
            level, _, key, group, *rest = job.record.partition(b";")[0].decode().split(",")
            self.plant.made[job.id] = Made(int(level), key, group, len(rest) > 1)
        return new

    def _heard(self, handles: list[Any]) -> None:
        for handle in handles:
            self.heard(handle.queue, handle.id)

    def heard(self, queue: str, id: str) -> None:
        """Record an acknowledged job in the partition of its handle."""
        next(part for part in self.plant.parts if part.queue.name == queue).acknowledged.append(id)


def _limits(group: str) -> dict[str, Any]:
    limits = LIMITS[group]
    rate = f"{limits.jobs}/{limits.per_ms}ms" if limits.jobs else None
    return {"group": group, "group_concurrency": limits.at_once or None, "group_rate": rate}


def _terms(name: str) -> dict[str, Any]:
    until, meaning, longest = NAMES[name]
    options: dict[str, Any] = {"unique": name, "unique_until": until if isinstance(until, str) else until / 1000}
    if meaning == "debounce":
        return {**options, "debounce": PAUSE_MS / 1000, "debounce_max": longest / 1000}
    return {**options, "on_duplicate": meaning}
