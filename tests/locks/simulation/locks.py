"""A whole run of locks: contenders of three processes, their renewers, a meddler; a function of the seed."""

from __future__ import annotations

from locks.simulation.lock_actors import Players
from locks.simulation.lock_checks import LockChecker
from simulator.faults import SECOND
from simulator.load import crowd
from simulator.process import Process
from simulator.runs import RELEASED, finished, incidents
from simulator.server import Build, Server
from simulator.world import World


def run(server: Server, seed: int, build: Build = RELEASED) -> World:
    """Contenders of three processes on one or two locks; raises Broken."""
    world = World(server, seed, build)
    players = Players(world)
    checker = LockChecker(world, players)
    world.checker = checker
    names = ["a", "b"][: world.random.randint(1, 2)]
    rounds = world.random.randint(2, 5)

    def populate(process: Process) -> None:
        world.start(process, "engine", lambda task: players.renewer(process), background=True)
        for number in range(world.random.randint(1, 3)):
            world.start(process, f"c{number}", lambda task: players.contender(task, names, rounds))

    kill = crowd(world, populate)
    world.start(world.process("m"), "meddler", lambda _: players.meddler(), background=True)
    incidents(world, kill, 20 * SECOND)
    return finished(world, seed, 30, 400, checker.at_end)
