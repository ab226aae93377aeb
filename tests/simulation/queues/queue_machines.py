"""What every run of a queue has: machines that come and go, and a judge who waits until all has ended."""

from __future__ import annotations

import itertools
from typing import Protocol

from simulation.faults import SECOND
from simulation.process import Actor, Process, Sleep, Task
from simulation.queues.queue_actors import Plant
from simulation.runs import incidents
from simulation.world import World


class Settling(Protocol):
    """Knows when all has ended."""

    def settled(self) -> bool:
        """Whether every job known to the server has ended."""


class Looking(Protocol):
    """Sees what takes too long."""

    def look(self) -> None:
        """Raises Broken."""


def judge(world: World, checker: Settling, watch: Looking) -> None:
    """Start the one who looks at the queue, and lets the run end when all has ended and all users have gone."""

    def drain(task: Task) -> Actor:
        while not world.calm or not checker.settled() or _others(world, task):
            yield Sleep(0.5)

    bench = world.process("judge")
    world.start(bench, "drain", drain)
    world.start(bench, "watch", lambda _: _watch(watch), background=True)


def _watch(watch: Looking) -> Actor:
    """Look ten times a second."""
    while True:
        watch.look()
        yield Sleep(0.1)


def staff(world: World, plant: Plant) -> None:
    """Start the machines, and plan what happens to them."""
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
    """Whether somebody else still uses the queue."""
    return any(task.live and not task.background for task in world.tasks if task is not mine)
