"""The fenced register against its model, and broken ones that the model must notice."""

from __future__ import annotations

import pytest

from model.bench import check, check_caught
from model.locks.register_machine import RegisterMachine
from simulation.server import Build, Server

MUTANTS = (
    Build("no fence", (("register_set", "if asked < fence then", "if false then"),)),
    Build("the holder writes once only", (("register_set", "if strict then", "if true then"),)),
    Build("strict is not", (("register_set", "if strict then", "if false then"),)),
    Build("forgets the last writers", (("register_set", "string.find(done, request, 1, true)", "false"),)),
    Build("remembers only the last", (("register_set", "string.sub(done, -15 * #request)", "''"),)),
)


def test_a_register_matches_its_model(simulated: Server) -> None:
    check(RegisterMachine, simulated, Build())


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_broken_register_is_caught(simulated: Server, mutant: Build) -> None:
    check_caught(RegisterMachine, simulated, mutant)
