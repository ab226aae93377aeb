"""A whole run of a queue with unique jobs, kept, replaced and debounced; a function of the seed."""

from __future__ import annotations

from lockwork.protocol.keys import QueueKeys
from simulation.faults import Mix
from simulation.queues import queue_users as users
from simulation.queues.limit_queue_actors import little_room
from simulation.queues.queue_machines import judge, staff
from simulation.queues.queue_watch import QueueWatch
from simulation.queues.unique_queue_actors import UniquePlant, caller, reviver
from simulation.queues.unique_queue_checks import UniqueChecker
from simulation.runs import RELEASED, finished
from simulation.server import Build, Server
from simulation.world import World


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
