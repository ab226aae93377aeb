"""A whole run of a queue: producers, callers, machines of workers, and faults; a function of the seed."""

from __future__ import annotations

from lockwork.protocol.keys import QueueKeys
from queues.simulation import queue_users as users
from queues.simulation.queue_actors import Plant
from queues.simulation.queue_checks import QueueChecker
from queues.simulation.queue_machines import judge, staff
from queues.simulation.queue_watch import QueueWatch
from simulator.faults import SECOND, Mix
from simulator.runs import RELEASED, finished
from simulator.server import Build, Server
from simulator.world import World


def run(server: Server, seed: int, build: Build = RELEASED) -> World:
    """Producers and worker machines on one queue; raises Broken. A fifth of the runs has no faults."""
    faultless = seed % 5 == 0
    world = World(server, seed, build, Mix(slow=0.1) if faultless else None)
    plant = Plant(world, QueueKeys("sim", "q"))
    checker = QueueChecker(world, plant)
    watch = QueueWatch(world, plant, checker, faultless=faultless)
    world.checker = checker
    random = world.random
    producers, office = world.process("shop"), world.process("office")
    producers.may_kill = seed % 3 != 1
    for number in range(2):
        world.start(producers, f"producer{number}", lambda _: users.producer(plant, random.randint(2, 5)))
    world.start(producers, "caller", lambda task: users.caller(plant, watch, task))
    world.start(office, "caller", lambda task: users.caller(plant, watch, task))
    world.start(office, "handler", lambda _: users.handler(plant))
    world.start(office, "undertaker", lambda _: users.undertaker(plant))

    staff(world, plant)
    judge(world, checker, watch)
    if not faultless and random.random() < 0.25:
        world.after(random.randint(0, 15 * SECOND), lambda: world.outage(random.randint(SECOND // 2, 6 * SECOND)))
    return finished(world, seed, 20, 60, checker.at_end)
