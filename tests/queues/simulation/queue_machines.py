"""Parts of every run of a queue: machines that start and die, and a judge that waits until all jobs have ended."""

from __future__ import annotations

import itertools
from typing import Protocol

from queues.simulation.queue_actors import Plant
from simulator.faults import SECOND
from simulator.process import Actor, Process, Sleep, Task
from simulator.runs import incidents
from simulator.world import World


class Settling(Protocol):
    """A checker that reports when all jobs have ended."""

    def settled(self) -> bool:
        """Return True if every job on the server has ended."""


class Looking(Protocol):
    """A watch of time limits."""

    def look(self) -> None:
        """Check the time limits; raises Broken."""


def judge(world: World, checker: Settling, watch: Looking) -> None:
    """Start the watch, and a task that ends after the faults, when all jobs and all other users have ended."""

    def drain(task: Task) -> Actor:
        while not world.calm or not checker.settled() or _others(world, task):
            yield Sleep(0.5)

    bench = world.process("judge")
    world.start(bench, "drain", drain)
    world.start(bench, "watch", lambda _: _watch(watch), background=True)


def _watch(watch: Looking) -> Actor:
    """Check the time limits ten times a second."""
    while True:
        watch.look()
        yield Sleep(0.1)


def staff(world: World, plant: Plant) -> None:
    """Start the machines, and schedule their incidents."""
    numbers, random = itertools.count(1), world.random

    def populate() -> None:
        plant.machine(f"m{next(numbers)}", random.randint(1, 2))

    def victims() -> list[Process]:
        return [process for process in world.processes if process.alive and process.name.startswith("m")]

    def kill() -> None:
        if not victims():
            return
        victim = random.choice(victims())
        plant.end(victim)
        if "/" not in victim.name:
            world.after(random.randint(0, SECOND), populate)

    for _ in range(2):
        populate()
    for _ in range(random.choice([0, 0, 1, 3])):
        world.after(random.randint(0, 15 * SECOND), plant.retire)
    incidents(world, kill, 15 * SECOND, victims, set_right=True)


def _others(world: World, mine: Task) -> bool:
    """Return True if another task still uses the queue."""
    return any(task.live and not task.background for task in world.tasks if task is not mine)
