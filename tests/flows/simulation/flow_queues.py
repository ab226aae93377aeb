"""A whole run of a queue with flows: chains, groups, chords and graphs whose jobs fail, are cancelled, lose workers.

In every second run a script handles only two effects of ended jobs per call, so it often leaves steps unfinished.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from unittest.mock import patch

from flows.simulation.flow_queue_actors import FlowPlant, canceller, planner
from flows.simulation.flow_queue_checks import FlowChecker
from flows.simulation.flow_queue_watch import FlowWatch
from lockwork.protocol.flows import flows
from lockwork.protocol.keys import QueueKeys
from queues.simulation import queue_users as users
from queues.simulation.limit_queue_actors import little_room
from queues.simulation.queue_actors import WINDOW_MS
from queues.simulation.queue_machines import judge, staff
from simulator.faults import SECOND, Mix
from simulator.runs import RELEASED, finished
from simulator.server import Build, Server
from simulator.world import Broken, World

_SMALL_STEPS = ("flows/parts/ended", "local STEPS = 150", "local STEPS = 2")


@cache
def _stepwise(build: Build) -> Build:
    return replace(build, edits=(_SMALL_STEPS, *build.edits), scripts={})


def run(server: Server, seed: int, build: Build = RELEASED) -> World:
    """Planners, workers, a canceller and waiting callers; raises Broken. A fifth of the runs has no faults."""
    faultless = seed % 5 == 0
    world = World(server, seed, _stepwise(build) if seed % 2 else build, Mix(slow=0.1) if faultless else None)
    plant = FlowPlant(world, QueueKeys("sim", "q"))
    checker = FlowChecker(world, plant)
    watch = FlowWatch(world, plant, checker, faultless=faultless)
    world.checker = checker
    random = world.random
    shop, office = world.process("shop"), world.process("office")

    def plan(name: str) -> None:
        world.start(shop, f"planner {name}", lambda _: planner(plant, name, random.randint(1, 3)))

    plan("f")
    plan("g")
    world.start(shop, "producer", lambda _: users.producer(plant, random.randint(0, 2)))
    world.start(shop, "waiter", watch.waiter)
    world.start(office, "waiter", watch.waiter)
    if seed % 4 == 3:
        world.start(office, "limiter", lambda _: little_room(plant), background=True)
    world.start(office, "canceller", lambda _: canceller(plant))
    world.start(office, "handler", lambda _: users.handler(plant))
    world.start(office, "undertaker", lambda _: users.undertaker(plant))
    staff(world, plant)
    judge(world, checker, watch)

    def at_end() -> None:
        checker.at_end()
        _nothing_is_left(world, plant)

    # two jobs per call: a producer may die or give up before its flow is complete
    with patch.object(flows, "_BATCH", 2):
        return finished(world, seed, 20, 80, at_end)


def _nothing_is_left(world: World, plant: FlowPlant) -> None:
    """Check that the server deletes incompletely stored flows, and flows that ended long ago."""
    later = world.server_now + (WINDOW_MS + 700_000) * 1000
    expire = world.build.script("queue/expire")
    keys = expire.declared.keys(plant.queue, {})
    for _ in range(1000):
        if not world.server.run(expire, keys, [WINDOW_MS], later + SECOND).reply:
            break
    if left := world.server.command("HGETALL", plant.queue.flows):
        raise Broken(f"of flows that ended or never began is left: {left}")
    unknown = {id.decode() for id in world.server.command("HKEYS", plant.queue.jobs)} - set(plant.dead())
    if unknown:
        raise Broken(f"{unknown} are left of flows that never began")
