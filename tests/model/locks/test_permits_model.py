"""Permits against their model, and broken permits that the model must notice."""

from __future__ import annotations

import pytest

from model.bench import check, check_caught
from model.locks.permits_machine import PermitsMachine, ReadersMachine
from simulation.server import Build, Server

_PART, _LINE = "parts/permits", "parts/permit_waiters"
MUTANTS = (
    Build("newcomers overtake the waiters", (("permits_acquire", "and line.head > line.tail and", "and"),)),
    Build(
        "a refreshed waiter sets the number of permits again",
        (("permits_acquire", "not ticket or units > capacity", "true"),),
    ),
    Build("any owner may release", (("permits_release", "if not held or held[2] ~= owner then", "if not held then"),)),
    Build("a fence that stays", ((_PART, "math.max(last + 1, now)", "math.max(last, now)"),)),
    Build("grants to dead waiters", (("parts/waiters", "if waiter[1] > now then\n", "if true then\n"),)),
    Build(
        "the new first waiter is not notified",
        ((_LINE, "if waiter[6] <= now + OFTEN * 1000 and not now_too then", "do"),),
    ),
    Build("revives a lapsed grant", (("permits_renew", " and held[1] > today then", " then"),)),
    Build("any owner may renew", (("permits_renew", "held and held[2] == owner and", "held and"),)),
    Build("dead holders keep their units", ((_PART, "if held[1] <= now then\n      drop(id, held)", "if false then"),)),
    Build("the renewed are swept", ((_PART, "if held[1] <= now then\n      drop", "if key <= now then\n      drop"),)),
    Build("a withdrawn grant stays", (("permits_abandon", "if held then drop(id, held) else", "if not held then"),)),
    Build("a non-holder may downgrade", (("permits_downgrade", "or held[2] ~= owner or", "or"),)),
    Build(
        "only one of a batch is let in",
        ((_LINE, "for _ = 1, 100 do\n    local waiter", "for _ = 1, 1 do\n    local waiter"),),
    ),
)


@pytest.mark.parametrize("machine", [PermitsMachine, ReadersMachine], ids=["semaphore", "rwlock"])
def test_permits_match_their_model(simulated: Server, machine: type[PermitsMachine]) -> None:
    check(machine, simulated, Build())


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_broken_permits_are_caught(simulated: Server, mutant: Build) -> None:
    check_caught(PermitsMachine, simulated, mutant)
