"""Processes that come, die, and are followed by others: the same in most runs."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from simulation.faults import SECOND
from simulation.process import Process
from simulation.world import World


def crowd(world: World, populate: Callable[[Process], None], size: int = 3, gap: int = SECOND) -> Callable[[], None]:
    """Start `size` processes, whose tasks `populate` starts; what it returns kills one, followed within `gap`."""
    names = (f"p{number}" for number in itertools.count())
    members: list[Process] = []

    def come() -> None:
        members.append(world.process(next(names)))
        populate(members[-1])

    def kill() -> None:
        if alive := [process for process in members if process.alive]:
            world.kill(world.random.choice(alive))
            world.after(world.random.randint(0, gap), come)

    for _ in range(size):
        come()
    return kill
