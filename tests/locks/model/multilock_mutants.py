"""Mutants of multilocks."""

from __future__ import annotations

from simulator.server import Build

_BEHIND = "    withdraw_from(at + 1, #locks) -- granted before this lock was lost\n"
_BEFORE = "      withdraw_from(1, at - 1)\n"
_MISSING = "    return {NOT_GRANTED, math.max(check, 1), now}\n"
_ASKS = "math.min(check, math.floor(lease / 3))"
_ALL_OR_LATER = "if #reply == 2 + 2 * #locks then return reply else return {0, 1, now} end"
_BACKWARDS = "table.sort(KEYS, function(a, b) return a > b end)"
_FENCE = "= fence_or_check\n    reply"
_MINE = "holder == owner and holder_request == request and"
_TICKET = "local ticket = redis.call('HGET', "
_GONE = "holder ~= owner or held_fence ~= ARGV[FIRST + at - 1] or (deadline or '0') == '0'"
_IN_TIME = "tonumber(deadline) > now and 1 or 0"
_PASS = "    release_to_next(held_fence, deadline, head, tail)\n"
_PROBLEM = "  if problem then reply[at] = problem end\n"
_STOP = "  if reply[at] == 0 then return reply end\n"
_WITHDRAW = "withdraw(owner, request)"
MUTANTS = (
    Build("waiting, it keeps the later locks", (("locks/multi_acquire", _BEHIND, ""),)),
    Build("refused, it keeps the later locks", (("locks/multi_acquire", _BEHIND, f"if wait then {_BEHIND} end"),)),
    Build("refused, it keeps the earlier locks", (("locks/multi_acquire", _BEFORE, ""),)),
    Build("refused, it keeps the first lock", (("locks/multi_acquire", _BEFORE, "withdraw_from(2, at - 1)\n"),)),
    Build(
        "waiting, it releases the earlier locks",
        (("locks/multi_acquire", _BEHIND, f"{_BEHIND} withdraw_from(1, at - 1)\n"),),
    ),
    Build("granted although one is missing", (("locks/multi_acquire", _MISSING, ""),)),
    Build(
        "a waiter on every lock",
        (
            ("locks/multi_acquire", _MISSING, ""),
            ("locks/multi_acquire", _BEHIND, ""),
            ("locks/multi_acquire", "return reply", _ALL_OR_LATER),
        ),
    ),
    Build(
        "collected from the last to the first", (("locks/multi_acquire", "local reply", f"{_BACKWARDS} local reply"),)
    ),
    Build("it polls again too late", (("locks/multi_acquire", _ASKS, "check"),)),
    Build("it polls again at once", (("locks/multi_acquire", "math.max(check, 1)", "check"),)),
    Build(
        "a waiter without any lock polls as often",
        (("locks/multi_acquire", "if at > 1 then check", "if true then check"),),
    ),
    Build("the fence of the first for all", (("locks/multi_acquire", _FENCE, f"= reply[3] or {_FENCE[2:]}"),)),
    Build("a whole lease at every transfer", (("locks/multi_acquire", "lease, claim, wait", "lease, lease, wait"),)),
    Build("only the first is withdrawn", (("locks/multi_abandon", _WITHDRAW, f"if _ == 1 then {_WITHDRAW} end"),)),
    Build(
        "only the waiter is withdrawn",
        (("locks/parts/withdraw", "release_to_next(fence, deadline, head, tail)", "remove_request(request)"),),
    ),
    Build("any owner may withdraw a grant", (("locks/parts/withdraw", _MINE, "holder and"),)),
    Build("an owner withdraws all its requests", (("locks/parts/withdraw", "holder_request == request and", ""),)),
    Build("only the first is released", (("locks/multi_release", _PASS, f"if at == 1 then {_PASS} end\n"),)),
    Build("released but not handed on", (("locks/multi_release", _PASS, "redis.call('HSET', lock, 'd', 0)\n"),)),
    Build(
        "any owner may release", (("locks/multi_release", _GONE, "not holder or held_fence ~= ARGV[FIRST + at - 1]"),)
    ),
    Build("any fence will do", (("locks/multi_release", _GONE, "holder ~= owner or (deadline or '0') == '0'"),)),
    Build("the first fence is for all", (("locks/multi_release", "ARGV[FIRST + at - 1]", "ARGV[FIRST]"),)),
    Build("one lost grant stops the others", (("locks/multi_release", _PROBLEM, _STOP),)),
    Build("too late is in time", (("locks/multi_release", _IN_TIME, "1"),)),
    Build("a release sent again is a loss", (("locks/multi_release", "again and 1 or 0", "0"),)),
    Build("grants to dead waiters", (("parts/waiters", "if waiter.ends_at_us > now then\n", "if true then\n"),)),
    Build("one wait queue for all locks", (("locks/parts/withdraw", "(lock, head", "(locks[1], head"),)),
)
