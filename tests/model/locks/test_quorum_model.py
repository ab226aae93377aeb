"""The quorum against its model, and broken ones that the model must notice."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lockwork.protocol.locks import quorum
from model.bench import check, check_caught
from model.locks.quorum_machine import QuorumMachine
from simulation.server import Build, Server

Majority = Callable[[int], int]
MUTANTS = (
    Build(
        "another's grant is taken for one's own",
        (("lock_raise", "held[1] ~= owner or held[2] ~= request or deadline", "deadline"),),
    ),
    Build(
        "any renewal counts as holding",
        (("lock_renew", "held[1] == owner and held[2] == fence and deadline > now", "held[1]"),),
    ),
)


def a_half(servers: int) -> int:
    """One of three will do."""
    return servers // 2


def all_servers(servers: int) -> int:
    """All must agree."""
    return servers


def no_drift(lease_ms: int) -> float:
    """All clocks run alike."""
    return 0.0


def test_a_quorum_matches_its_model(simulated: Server) -> None:
    check(QuorumMachine, simulated, Build())


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_broken_server_is_caught(simulated: Server, mutant: Build) -> None:
    check_caught(QuorumMachine, simulated, mutant)


@pytest.mark.parametrize("majority", [a_half, all_servers], ids=lambda majority: majority.__name__)
def test_a_wrong_majority_is_caught(simulated: Server, monkeypatch: pytest.MonkeyPatch, majority: Majority) -> None:
    monkeypatch.setattr(quorum, "majority", majority)
    check_caught(QuorumMachine, simulated, Build(f"a majority is {majority.__name__}"))


def test_a_forgotten_drift_is_caught(simulated: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quorum, "drift", no_drift)
    check_caught(QuorumMachine, simulated, Build("without drift"))
