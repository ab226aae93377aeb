"""Users of a queue with limits: a manager, producers, and callers that wait until it is drained."""

from __future__ import annotations

from contextlib import suppress

from lockwork.errors import LockworkError, QueueFull, WaitTimeout
from lockwork.protocol.effects import Argument
from lockwork.protocol.queue import enqueue
from lockwork.protocol.queue import limits as queue_limits
from queues.simulation.limit_queue_checks import LimitChecker
from queues.simulation.queue_actors import Plant
from queues.simulation.queue_users import new_job
from queues.simulation.queue_watch import QueueWatch
from simulator.faults import SECOND
from simulator.process import Actor, Cancelled, Sleep, Task
from simulator.world import Broken, World

_CHOICES: dict[str, tuple[Argument, ...]] = {
    "paused": (1, 1, ""),
    "concurrency": (1, 2, 3, ""),
    "size": (0, 2, 5, ""),
    "rate": ("1/1000", "3/1000", "2/400", ""),
}
_SPREAD = SECOND
"""Time span over which rate-limited workers spread their retries, us."""


def manager(plant: Plant, rounds: int) -> Actor:
    """Pause and limit the queue, with one limit or with changing ones; in the end remove all limits."""
    random = plant.world.random
    if steady := random.choice([None, None, "concurrency", "rate"]):
        with suppress(LockworkError):
            yield from queue_limits.change(plant.queue, {steady: _CHOICES[steady][0]})
            yield Sleep(14)
    for _ in range(0 if steady else rounds):
        with suppress(LockworkError):
            yield Sleep(random.uniform(0, 3))
            names = random.sample(list(_CHOICES), random.choice([1, 1, 2]))
            yield from queue_limits.change(plant.queue, {name: random.choice(_CHOICES[name]) for name in names})
            if "paused" in names and random.random() < 0.7:
                yield Sleep(random.uniform(0, 2))
                yield from queue_limits.change(plant.queue, {"paused": ""})
    while True:
        with suppress(LockworkError):
            yield from queue_limits.change(plant.queue, dict.fromkeys(_CHOICES, ""))
            return
        yield Sleep(0.2)


def little_room(plant: Plant) -> Actor:
    """Limit the queue to a few waiting jobs for a while."""
    random = plant.world.random
    sizes: tuple[Argument, ...] = (random.choice([0, 1, 3]), "")
    for size in sizes:
        yield Sleep(random.uniform(0, 6))
        while True:
            try:
                yield from queue_limits.change(plant.queue, {"size": size})
                break
            except LockworkError:
                yield Sleep(0.2)


def producer(plant: Plant, checker: LimitChecker, rounds: int) -> Actor:
    """Enqueue a few jobs at a time. Check that a full queue accepts no jobs except the reported first ones."""
    random = plant.world.random
    for _ in range(rounds):
        with suppress(LockworkError, Cancelled):
            yield Sleep(random.uniform(0, 2.5))
            new = [new_job(plant) for _ in range(random.randint(1, random.choice([3, 12])))]
            try:
                if random.random() < 0.25:
                    yield from enqueue.push(plant.queue, new, expires_ms=random.randint(1, 5000))
                else:
                    yield from enqueue.push(plant.queue, new, partial=random.random() < 0.4)
            except QueueFull as full:
                plant.acknowledged += [job.id for job in new[: full.enqueued]]
                refused = {job.id for job in new[full.enqueued :]}
                there = refused & checker.view.places.keys()
                checker.refused |= refused - there
                # if the queue was cleared between two attempts, the server takes the rest for new jobs
                if there and not refused & checker.cleared:
                    raise Broken(f"the queue is full, and {there} are there") from None
            else:
                plant.acknowledged += [job.id for job in new]


class LimitWatch(QueueWatch):
    """Checks the time limits of a queue with limits."""

    def __init__(self, world: World, plant: Plant, checker: LimitChecker, *, faultless: bool) -> None:
        super().__init__(world, plant, checker, faultless=faultless)
        self._limits = checker

    def _idle(self) -> None:
        now, since = self._world.now, self._limits.free_since
        if since is None or now - since <= self.bound:
            return
        if self._limits.rate is None:
            if now - self._limits.changed > self.bound:
                super()._idle()
        elif self._faultless and self.somebody_idles():
            self._check_turns(max(since, self._limits.changed))

    def _check_turns(self, since: int) -> None:
        """Check that jobs begin as soon as the rate allows."""
        rate, checker = self._limits.rate or (1, 1), self._limits
        ready = [checker.since[id] for id, place in checker.view.places.items() if place[0] == "ready"]
        last = max([since, min(ready, default=self._world.now), *(begun - self._start for begun in checker.begun[-1:])])
        if self._world.now - last > rate[1] * 1000 // rate[0] + _SPREAD + self.bound:
            raise Broken(f"{len(ready)} jobs are ready, the rate is {rate}, and none begins")

    @property
    def _start(self) -> int:
        """Server time minus true time."""
        return self._world.server_now - self._world.now

    def drainer(self, task: Task) -> Actor:
        """Wait until the queue is drained."""
        random, checker = self._world.random, self._limits
        with suppress(LockworkError, Cancelled):
            for _ in range(2):
                yield Sleep(random.uniform(0, 8))
                began, timeout = self._world.now, random.uniform(0, 15)
                drain = queue_limits.drain(self._plant.queue, task.process.channel, timeout, delayed=True)
                try:
                    yield from drain
                except WaitTimeout:
                    idle = checker.empty_since
                    early = began + int(timeout * SECOND) - SECOND // 5
                    if idle is not None and idle < early and task.undisturbed_since(began):
                        raise Broken("the queue was drained in time, and who waited was told that it is not") from None
                    continue
                if checker.empty_since is None and checker.emptied < began:
                    raise Broken("who waited was told that the queue is drained, and it never was")
                idle = max(began, checker.empty_since or self._world.now)
                told = SECOND // 2 if checker.ended_running else SECOND * 3 // 2
                if self._faultless and self._world.now - idle > told:
                    raise Broken(f"the queue was drained {(self._world.now - idle) / SECOND:.2f} s before it was said")
