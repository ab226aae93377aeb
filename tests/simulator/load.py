"""Processes that start, are killed and replaced, as in most runs."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from simulator.faults import SECOND
from simulator.process import Process
from simulator.world import World


def crowd(world: World, populate: Callable[[Process], None], size: int = 3, gap: int = SECOND) -> Callable[[], None]:
    """Start `size` processes with the tasks of `populate`.

    Return a function that kills a live one; another process starts within `gap` us.
    """
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
