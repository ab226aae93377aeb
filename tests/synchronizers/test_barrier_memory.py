"""The barrier's memory of passed parties, in virtual time: enough for a party that missed its wake-up."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockwork.protocol.effects import Argument, script_call
from lockwork.protocol.keys import barrier as barrier_keys
from models.bench import SECOND, Bench
from simulator.server import Build, Server


@pytest.fixture
def simulated(url: str) -> Iterator[Server]:
    server = Server(url)
    yield server
    server.close()


def turns(bench: Bench, parties: int, count: int) -> None:
    for turn in range(count):
        for number in range(parties):
            args: list[Argument] = [parties, f"{bench.now}.{turn}.{number}", "channel"]
            bench.call(script_call("synchronizers/barrier_arrive", barrier_keys("sim", "a"), args))


def remembered(server: Server, parties: int) -> int:
    """Return the number of remembered generations."""
    return (int(server.command("HLEN", "sim:{barrier:a}")) - 5) // (parties + 1)


def test_passed_party_is_remembered_for_a_minute(simulated: Server) -> None:
    bench = Bench(simulated, Build())
    turns(bench, 3, 30)
    assert remembered(simulated, 3) == 30
    bench.now += 61 * SECOND
    turns(bench, 3, 30)
    assert remembered(simulated, 3) == 30


def test_barrier_remembers_only_the_last_passed_parties(simulated: Server) -> None:
    turns(Bench(simulated, Build()), 7000, 4)
    assert remembered(simulated, 7000) == 2
