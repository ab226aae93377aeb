"""A whole run of a queue with partitions: apps of two processes, workers of all partitions; a function of the seed."""

from __future__ import annotations

from collections.abc import Callable

from lockwork.protocol.keys import QueueKeys
from queues.simulation import queue_users as users
from queues.simulation.partition_actors import PartitionedPlant
from queues.simulation.partition_checks import PartitionsChecker, PartitionsWatch
from queues.simulation.partition_users import Shop
from queues.simulation.queue_actors import Plant
from queues.simulation.queue_machines import judge, staff
from queues.simulation.queue_watch import QueueWatch
from queues.simulation.unique_queue_actors import reviver
from simulator.faults import Mix
from simulator.process import Actor, Task
from simulator.runs import RELEASED, finished
from simulator.server import Build, Server
from simulator.world import World

_FAULTLESS = 5
"""Runs whose seed is divisible by this have no faults."""


def play(
    server: Server,
    seed: int,
    build: Build = RELEASED,
    shop: type[Shop] = Shop,
    plant: type[PartitionedPlant] = PartitionedPlant,
) -> World:
    """Producers, workers and operators; raises Broken."""
    faultless = seed % _FAULTLESS == 0
    world = World(server, seed, build, Mix(slow=0.1) if faultless else None)
    whole = plant(world, QueueKeys("sim", "q"))
    shops = [shop(whole, number) for number in range(2)]
    checker = PartitionsChecker(world, whole, shops)
    world.checker = checker
    random = world.random
    for one in shops:
        process = world.process(f"shop{one.number}")
        world.start(process, "clerk", _enqueues(one, random.randint(5, 12)))
    office = world.process("office")
    watches = []
    for part in whole.parts:
        watch = QueueWatch(world, part, checker.parts[part.queue.name], faultless=faultless)
        watches.append(watch)
        world.start(office, f"caller{part.queue.name}", _calls(part, watch))
        world.start(office, f"handler{part.queue.name}", _handles(part))
    part = random.choice(whole.parts)
    world.start(office, "reviver", lambda _: reviver(part))
    world.start(office, "undertaker", lambda _: users.undertaker(part))
    staff(world, whole)
    judge(world, checker, PartitionsWatch(watches))
    return finished(world, seed, 20, 60, checker.at_end)


def _enqueues(shop: Shop, rounds: int) -> Callable[[Task], Actor]:
    return lambda _: shop.enqueue(rounds)


def _calls(part: Plant, watch: QueueWatch) -> Callable[[Task], Actor]:
    return lambda task: users.caller(part, watch, task)


def _handles(part: Plant) -> Callable[[Task], Actor]:
    return lambda _: users.handler(part)
