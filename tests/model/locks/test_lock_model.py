"""The lock against its model, and broken locks that the model must notice."""

from __future__ import annotations

import pytest

from model.bench import check, check_caught
from model.locks.lock_machine import LockMachine
from simulation.server import Build, Server

_TICKET = "ticket = join()"
_RISE = ("parts/lock_waiters", "(tonumber(last) or 0) + 1", "(tonumber(last) or 0)")
_CLOCK = ("parts/lock_waiters", "if fence < now then", "if fence == 0 then")
MUTANTS = (
    Build("serves the newest waiter first", (("parts/ask", _TICKET, f"{_TICKET} line.head = ticket"),)),
    Build("any owner may release", (("lock_release", "held[1] ~= owner or held[2] ~= fence or", "not held[3] or"),)),
    Build("a fence that stays", (_RISE, _CLOCK)),
    Build("grants to dead waiters", (("parts/waiters", "if waiter[1] > now then\n", "if true then\n"),)),
    Build("revives a lapsed grant", (("lock_renew", " and deadline > now then", " then"),)),
)


def test_a_lock_matches_its_model(simulated: Server) -> None:
    check(LockMachine, simulated, Build())


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_broken_lock_is_caught(simulated: Server, mutant: Build) -> None:
    check_caught(LockMachine, simulated, mutant)
