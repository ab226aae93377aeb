"""Multilocks, beside single locks on the same keys, against their model, and broken ones that the model must notice."""

from __future__ import annotations

import pytest

from model.bench import check, check_caught
from model.locks.multilock_machine import MultilockMachine
from simulation.server import Build, Server

_BEHIND = "    withdraw_from(at + 1, #locks) -- had from a time before this one was lost\n"
_BEFORE = "      withdraw_from(1, at - 1)\n"
_MISSING = "    return {0, math.max(check, 1), now}\n"
_ASKS = "math.min(check, math.floor(lease / 3))"
_ALL_OR_LATER = "if #reply == 2 + 2 * #locks then return reply else return {0, 1, now} end"
_BACKWARDS = "table.sort(KEYS, function(a, b) return a > b end)"
_FENCE = "= answer[2]\n    reply"
_MINE = "held[1] == owner and held[2] == request and"
_TICKET = "local ticket = redis.call('HGET', "
_GONE = "held[1] ~= owner or held[2] ~= ARGV[FIRST + at - 1] or held[3] == '0'"
_IN_TIME = "tonumber(held[3]) > now and 1 or 0"
_PASS = "    pass(held[2], held[4], held[5])\n"
_PROBLEM = "  if problem then reply[at] = problem end\n"
_STOP = "  if reply[at] == 0 then return reply end\n"
_WITHDRAW = "withdraw(owner, request)"
MUTANTS = (
    Build("waiting, it keeps the later locks", (("multi_acquire", _BEHIND, ""),)),
    Build("refused, it keeps the later locks", (("multi_acquire", _BEHIND, f"if wait then {_BEHIND} end"),)),
    Build("refused, it keeps the earlier locks", (("multi_acquire", _BEFORE, ""),)),
    Build("refused, it keeps the first lock", (("multi_acquire", _BEFORE, "withdraw_from(2, at - 1)\n"),)),
    Build(
        "waiting, it releases the earlier locks", (("multi_acquire", _BEHIND, f"{_BEHIND} withdraw_from(1, at - 1)\n"),)
    ),
    Build("granted although one is missing", (("multi_acquire", _MISSING, ""),)),
    Build(
        "a waiter on every lock",
        (
            ("multi_acquire", _MISSING, ""),
            ("multi_acquire", _BEHIND, ""),
            ("multi_acquire", "return reply", _ALL_OR_LATER),
        ),
    ),
    Build("collected from the last to the first", (("multi_acquire", "local reply", f"{_BACKWARDS} local reply"),)),
    Build("it polls again too late", (("multi_acquire", _ASKS, "check"),)),
    Build("it polls again at once", (("multi_acquire", "math.max(check, 1)", "check"),)),
    Build(
        "a waiter without any lock polls as often", (("multi_acquire", "if at > 1 then check", "if true then check"),)
    ),
    Build("the fence of the first for all", (("multi_acquire", _FENCE, f"= reply[3] or {_FENCE[2:]}"),)),
    Build("a whole lease at every transfer", (("multi_acquire", "lease, claim, wait", "lease, lease, wait"),)),
    Build("only the first is withdrawn", (("multi_abandon", _WITHDRAW, f"if _ == 1 then {_WITHDRAW} end"),)),
    Build("only the waiter is withdrawn", (("parts/withdraw", "pass(held[3], held[5], held[6])", "leave(request)"),)),
    Build("any owner may withdraw a grant", (("parts/withdraw", _MINE, "held[1] and"),)),
    Build("an owner withdraws all its requests", (("parts/withdraw", "held[2] == request and", ""),)),
    Build("only the first is released", (("multi_release", _PASS, f"if at == 1 then {_PASS} end\n"),)),
    Build("released but not handed on", (("multi_release", _PASS, "redis.call('HSET', lock, 'd', 0)\n"),)),
    Build("any owner may release", (("multi_release", _GONE, "not held[1] or held[2] ~= ARGV[FIRST + at - 1]"),)),
    Build("any fence will do", (("multi_release", _GONE, "held[1] ~= owner or held[3] == '0'"),)),
    Build("the first fence is for all", (("multi_release", "ARGV[FIRST + at - 1]", "ARGV[FIRST]"),)),
    Build("one lost grant stops the others", (("multi_release", _PROBLEM, _STOP),)),
    Build("too late is in time", (("multi_release", _IN_TIME, "1"),)),
    Build("a release sent again is a loss", (("multi_release", "again and 1 or 0", "0"),)),
    Build("grants to dead waiters", (("parts/waiters", "if waiter[1] > now then\n", "if true then\n"),)),
    Build("one wait queue for all locks", (("parts/withdraw", "(lock, held[5]", "(locks[1], held[5]"),)),
)


def test_multilocks_match_their_model(simulated: Server) -> None:
    check(MultilockMachine, simulated, Build())


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_broken_multilock_is_caught(simulated: Server, mutant: Build) -> None:
    check_caught(MultilockMachine, simulated, mutant)
