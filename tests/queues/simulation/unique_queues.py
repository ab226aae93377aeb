"""A whole run of a queue with unique jobs, kept, replaced and debounced; a function of the seed."""

from __future__ import annotations

from lockwork.protocol.keys import QueueKeys
from queues.simulation import queue_users as users
from queues.simulation.limit_queue_actors import little_room
from queues.simulation.queue_machines import judge, staff
from queues.simulation.queue_watch import QueueWatch
from queues.simulation.unique_queue_actors import UniquePlant, caller, reviver
from queues.simulation.unique_queue_checks import UniqueChecker
from simulator.faults import Mix
from simulator.runs import RELEASED, finished
from simulator.server import Build, Server
from simulator.world import World


def run(server: Server, seed: int, build: Build = RELEASED) -> World:
    """Callers of unique tasks, workers and operators; raises Broken. A fifth of the runs has no faults."""
    faultless = seed % 5 == 0
    world = World(server, seed, build, Mix(slow=0.1) if faultless else None)
    plant = UniquePlant(world, QueueKeys("sim", "q"))
    checker = UniqueChecker(world, plant)
    watch = QueueWatch(world, plant, checker, faultless=faultless)
    world.checker = checker
    checker.refused = plant.refused
    random = world.random
    shop, office = world.process("shop"), world.process("office")
    shop.may_kill = seed % 3 != 2
    for number in range(3):
        world.start(shop, f"caller{number}", lambda _: caller(plant, random.randint(3, 10)))
    world.start(shop, "producer", lambda _: users.producer(plant, random.randint(0, 2)))
    world.start(office, "caller", lambda task: users.caller(plant, watch, task))
    if seed % 3 == 1:
        world.start(office, "limiter", lambda _: little_room(plant), background=True)
    world.start(office, "reviver", lambda _: reviver(plant))
    world.start(office, "handler", lambda _: users.handler(plant))
    world.start(office, "undertaker", lambda _: users.undertaker(plant))
    staff(world, plant)
    judge(world, checker, watch)
    return finished(world, seed, 20, 60, checker.at_end)
