"""Whole runs. A run is a pure function of its seed; a failing run reports its seed and the end of its trace.

Replay a seed with its whole trace: `python -m simulator locks 12345` in `tests/`, or LOCKWORK_SEED=12345 for the
tests. More seeds than usual: LOCKWORK_SEEDS=5000.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from simulator.faults import SECOND
from simulator.process import Process, Task
from simulator.server import Build
from simulator.world import Broken, World

RELEASED = Build()
_STEPS = (2 * SECOND, 20 * SECOND, 3 * 3600 * SECOND)
"""Maximum size of a clock step, us; each step draws one of these."""


def incidents(
    world: World,
    kill: Callable[[], None],
    span: int,
    victims: Callable[[], list[Process]] | None = None,
    *,
    set_right: bool = False,
) -> None:
    """Schedule the incidents of a run within `span` us.

    victims: the processes that may be paused; default: all except the judge.
    set_right: correct a clock that was set back after `span`. Otherwise entries due by it would never come.
    """
    random, mix = world.random, world.mix

    def all_but_judge() -> list[Process]:
        return [process for process in world.processes if process.name != "judge"]

    def pause() -> None:
        if alive := [process for process in (victims or all_but_judge)() if process.alive]:
            world.pause(random.choice(alive), int(random.choice([0.05, 0.5, 2, 8]) * random.uniform(0.5, 1.5) * SECOND))

    def cancel() -> None:
        if live := [task for task in world.tasks if task.live and not task.background and task.process.name != "judge"]:
            world.cancel(random.choice(live))

    plan: list[tuple[int, Callable[[], None]]] = [
        (mix.kills, kill),
        (mix.pauses, pause),
        (mix.cancels, cancel),
        (mix.flushes, world.flush_scripts),
        (mix.back, partial(_step, world, -1)),
        (mix.forth, partial(_step, world, 1)),
    ]
    if set_right:
        world.after(span + random.randint(0, 2 * SECOND), _set_right, world)

    for _ in range(world.listening_faults.hangups):
        world.after(world.chance.randint(0, span), partial(_hang_up, world))
    for count, what in plan:
        for _ in range(count):
            world.after(random.randint(0, span), what)


def _step(world: World, sign: int) -> None:
    world.move_clock(sign * world.random.randint(0, world.random.choice(_STEPS)))


def _set_right(world: World) -> None:
    if world.ahead < 0:
        world.move_clock(-world.ahead)


def _hang_up(world: World) -> None:
    listening = [process for process in world.processes if process.alive and process.listens]
    if listening:
        world.hang_up(world.chance.choice(listening))


def finished(world: World, seed: int, stormy: int, calm: int, at_end: Callable[[], None] = lambda: None) -> World:
    """Run until all tasks have ended: `stormy` seconds with faults, at most `calm` seconds without; raises Broken."""
    try:
        world.run(stormy * SECOND)
        world.calm = True
        world.run((stormy + calm) * SECOND)
        if stuck := [task.name for task in world.tasks if task.live and not task.background]:
            raise Broken(f"{stuck} never came to an end")
        at_end()
    except Broken as rule:
        raise Broken(f"{rule}\nseed {seed}, {world.build.name}, {world.mix}\n" + "\n".join(world.trace[-60:])) from None
    finally:
        for task in world.tasks:
            close(task)
    return world


def close(task: Task) -> None:
    """Close the actor of a task that may not have ended."""
    task.actor.close()
