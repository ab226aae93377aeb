"""A whole run of a queue that is paused, resumed and limited while it works; a function of the seed."""

from __future__ import annotations

from lockwork.protocol.keys import QueueKeys
from queues.simulation import queue_users as users
from queues.simulation.limit_queue_actors import LimitWatch, manager, producer
from queues.simulation.limit_queue_checks import LimitChecker
from queues.simulation.queue_actors import Plant
from queues.simulation.queue_machines import judge, staff
from simulator.faults import Mix
from simulator.runs import RELEASED, finished
from simulator.server import Build, Server
from simulator.world import World


def run(server: Server, seed: int, build: Build = RELEASED) -> World:
    """Producers, workers, and a manager who changes the rules; raises Broken. In a third of the runs nothing fails."""
    faultless = seed % 3 == 0
    world = World(server, seed, build, Mix(slow=0.1) if faultless else None)
    plant = Plant(world, QueueKeys("sim", "q"))
    checker = LimitChecker(world, plant)
    watch = LimitWatch(world, plant, checker, faultless=faultless)
    world.checker = checker
    random = world.random
    shop, office = world.process("shop"), world.process("office")
    for number in range(2):
        world.start(shop, f"producer{number}", lambda _: producer(plant, checker, random.randint(2, 6)))
    world.start(shop, "drainer", watch.drainer)
    # only the manager resumes a paused queue, so a background task runs it, which is never cancelled
    world.start(office, "manager", lambda _: manager(plant, random.randint(2, 6)), background=True)
    world.start(office, "caller", lambda task: users.caller(plant, watch, task))
    world.start(office, "handler", lambda _: users.handler(plant))
    world.start(office, "undertaker", lambda _: users.undertaker(plant))
    staff(world, plant)
    judge(world, checker, watch)
    return finished(world, seed, 20, 60, checker.at_end)
