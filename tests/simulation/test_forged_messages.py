"""A client that takes any seal for valid believes a stranger, who may only listen and PUBLISH: each run notices."""

from __future__ import annotations

import hmac
from collections.abc import Callable

import pytest

from simulation.catching import check_caught
from simulation.locks import locks, permits
from simulation.queues import queues
from simulation.server import Server
from simulation.synchronizers.barriers import barriers
from simulation.synchronizers.latches import latches

_SEEDS = 60


@pytest.mark.parametrize(
    "run",
    [locks.run, permits.run, queues.run, barriers, latches],
    ids=["locks", "permits", "queue", "barriers", "latches"],
)
def test_a_client_that_believes_any_seal_is_caught(
    simulated: Server, monkeypatch: pytest.MonkeyPatch, run: Callable[[Server, int], object]
) -> None:
    monkeypatch.setattr(hmac, "compare_digest", lambda *_: True)
    check_caught(lambda seed: run(simulated, seed), "believes any seal", _SEEDS)
