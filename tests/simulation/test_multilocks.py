"""Multilocks keep every rule in virtual time and never wait in a circle, and every broken twin is caught."""

from __future__ import annotations

import pytest

from lockwork.protocol import keys
from simulation import multilocks
from simulation.multilocks import TWINS
from simulation.seeds import blocks, label
from simulation.server import Build, Server
from simulation.world import EPOCH, Broken


@pytest.mark.parametrize("seeds", blocks(4), ids=label)
def test_multilocks_keep_their_rules(simulated: Server, seeds: range) -> None:
    for seed in seeds:
        multilocks.run(simulated, seed)


def test_a_seed_replays_exactly(simulated: Server) -> None:
    for seed in range(5):
        assert multilocks.run(simulated, seed).trace == multilocks.run(simulated, seed).trace


LEFT = Build(
    "what an earlier call left is taken over past the line",
    (("multi_acquire", "if own and held[2] ~= request then left[key] = held end", ""),),
)


@pytest.mark.parametrize("build", [Build(), LEFT], ids=lambda build: build.name)
def test_what_an_earlier_call_left_does_not_pass_the_line(simulated: Server, build: Build) -> None:
    """The circle that seed 505 of an earlier build waited in."""
    simulated.reset()
    first, second = keys.lock("sim", "a"), keys.lock("sim", "b")

    def ask(on: list[str], owner: str, request: str, now: int) -> list[int]:
        args = (owner, request, 60_000, 4_000, 1, "sim:wake:x")
        reply: list[int] = simulated.run(build.script("multi_acquire"), on, args, EPOCH + now).reply
        return reply

    assert ask([first], "ann", "lost", 1)[0] == 1, "whose reply never came"
    assert ask([first, second], "bob", "both", 2)[0] == 0, "bob has b, and waits for a"
    assert ask([first, second], "ann", "anew", 3)[0] == 0
    granted = ask([first, second], "bob", "both", 4)[0] == 1
    assert granted == (build is not LEFT), "who came first gets both"


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.name)
def test_a_broken_twin_is_caught(simulated: Server, twin: Build) -> None:
    for seed in range(400):
        try:
            multilocks.run(simulated, seed, twin)
        except Broken:
            return
    pytest.fail(f"nobody noticed: {twin.name}")
