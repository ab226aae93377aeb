"""A whole run of flows across three queues, whose workers also relay the messages between them.

In every second run a script handles only two effects of ended jobs, and one message, per call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from unittest.mock import patch

from flows.simulation.cross_queue_actors import CrossDesk, CrossPlant, canceller, handler, planner, waiter
from flows.simulation.cross_queue_checks import CrossChecker
from lockwork.protocol.flows import flows
from lockwork.protocol.keys import QueueKeys
from queues.simulation import queue_users as users
from queues.simulation.queue_machines import judge, staff
from simulator.faults import Mix
from simulator.process import Actor, Task
from simulator.runs import RELEASED, finished
from simulator.server import Build, Server
from simulator.world import World

_SMALL = (
    ("flows/parts/ended", "local STEPS = 150", "local STEPS = 2"),
    ("flows/receive", "local MOST = 50", "local MOST = 1"),
    ("flows/parts/outbox", "local MOST, MOST_BYTES = 100,", "local MOST, MOST_BYTES = 2,"),
)


@cache
def _stepwise(build: Build) -> Build:
    return replace(build, edits=(*_SMALL, *build.edits), scripts={})


def run(server: Server, seed: int, build: Build = RELEASED) -> World:
    """Planners, workers, operators and waiting callers; raises Broken. A fifth of the runs has no faults."""
    faultless = seed % 5 == 0
    world = World(server, seed, _stepwise(build) if seed % 2 else build, Mix(slow=0.1) if faultless else None)
    plant = CrossPlant(world, QueueKeys("sim", "q"), faultless=faultless)
    checker = CrossChecker(world, plant, faultless=faultless)
    world.checker = checker
    random = world.random
    shop, office = world.process("shop"), world.process("office")

    def plan(name: str) -> None:
        world.start(shop, f"planner {name}", lambda _: planner(plant, name, random.randint(1, 3)))

    plan("f")
    plan("g")
    world.start(office, "waiter", waiter(plant, checker.told))
    world.start(office, "canceller", lambda _: canceller(plant))
    for desk in plant.crossing:
        world.start(office, f"handler {desk.queue.name}", _handles(desk))
    world.start(office, "undertaker", lambda _: users.undertaker(random.choice(plant.crossing)))
    staff(world, plant)
    judge(world, checker, checker)

    def at_end() -> None:
        checker.at_end()
        checker.check_nothing_is_left()

    # two jobs per call: a producer may die or give up before its flow is complete
    with patch.object(flows, "_BATCH", 2):
        return finished(world, seed, 20, 120, at_end)


def _handles(desk: CrossDesk) -> Callable[[Task], Actor]:
    return lambda _: handler(desk)
