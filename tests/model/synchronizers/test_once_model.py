"""At most once per period against its model, and broken builds that the model must notice."""

from __future__ import annotations

import pytest

from model.bench import check, check_caught
from model.synchronizers.once_machine import OnceMachine
from simulation.server import Build, Server

_PART = "parts/once"
MUTANTS = (
    Build("forgets its own run", (("once_begin", "if found[1] == 'r' and request == asked then", "if false then"),)),
    Build("runs again when it is done", (("once_begin", "elseif state ~= '' and", "elseif state == 'l' and"),)),
    Build("never runs again", (("once_begin", "(ends > now or", "(true or"),)),
    Build("repeats a lost run", (("once_begin", "not (state == 'l' and again_if_lost)", "state ~= 'l'"),)),
    Build("never repeats a lost run", (("once_begin", "not (state == 'l' and again_if_lost)", "true"),)),
    Build("forgets the waiters of the run", (("once_begin", "or fence == seen", ""),)),
    Build("runs for a caller that gave up", (("once_begin", "if known(once, 'x', asked) then", "if false then"),)),
    Build("the fence does not rise", (("once_begin", "math.max(fence + 1, now)", "math.max(fence, 7)"),)),
    Build("stores over another run", (("once_end", "or found[4] ~= seen", ""),)),
    Build("a failure turns into a result", (("once_end", "if state == 'd' or state == 'f' or", "if"),)),
    Build(
        "notifies no waiter",
        ((_PART, "publish(string.sub(name, 2), once)", ""),),
    ),
    Build("notifies again", ((_PART, "redis.call('HDEL', once, unpack(notified))", ""),)),
    Build("revives a lost run", (("once_renew", "and deadline > now then", "then"),)),
    Build("resets twice", (("once_reset", "not known(once, 'z', asked)", "true"),)),
    Build("gives up another's run", (("once_abandon", "and request == asked then", "then"),)),
)


def test_calls_match_their_model(simulated: Server) -> None:
    check(OnceMachine, simulated, Build())


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_broken_build_is_caught(simulated: Server, mutant: Build) -> None:
    check_caught(OnceMachine, simulated, mutant)
