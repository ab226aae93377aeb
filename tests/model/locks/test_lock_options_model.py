"""The lock in every way against its model, and broken ways that the model must notice."""

from __future__ import annotations

import pytest

from model.bench import check, check_caught
from model.locks.lock_options_machine import LockOptionsMachine
from simulation.server import Build, Server

_GRANT = "local fence, ends = grant(owner, request, lease, held[3])"
_SAME = "fence = tonumber(held[3]) redis.call('HSET', lock, 'f', fence)"
_NOT_ON = "redis.call('HSET', lock, 'd', 0)"
_MINE = "if held[1] == owner and held[2] == request and deadline > now then"
_MINIMUM = "if at_least and left > 0 then"
_LEAVES = "    leave(request)\n    save_waiters()\n    return"
_PLACES = "parts/waiters"
MUTANTS = (
    Build("adoption without a higher fence", (("lock_adopt", _GRANT, f"{_GRANT} {_SAME}"),)),
    Build("adopted twice", (("lock_adopt", "held[1] ~= old_owner or held[3] ~= old_fence or deadline", "deadline"),)),
    Build("adopted under an old fence", (("lock_adopt", "or held[3] ~= old_fence or", "or"),)),
    Build("adopted too late", (("lock_adopt", "or deadline <= now then return", "then return"),)),
    Build("an adopter's own call sent again is refused", (("lock_adopt", _MINE, "if false then"),)),
    Build("adoption does not notify the waiters", (("lock_adopt", "if held[5] then warn", "if false then warn"),)),
    Build("adoption loses the waiters", (("lock_adopt", "\nkeep(ends, fence)", "\nredis.call('HDEL', lock, 't')"),)),
    Build("force ends any grant", (("lock_force", "held[2] ~= fence", "false"),)),
    Build("force release skips the waiters", (("lock_force", "pass(held[2], held[4], held[5])", _NOT_ON),)),
    Build("force ends an expired grant", (("lock_force", " or tonumber(held[3]) <= now then", " then"),)),
    Build("force sent again reports no holder", (("lock_force", "return again and 1 or 0", "return 0"),)),
    Build("a minimum is forgotten", (("lock_release", _MINIMUM, "if false then"),)),
    Build("a minimum without a release in time", (("lock_release", _MINIMUM, "if at_least then"),)),
    Build("a minimum is its releaser's", (("lock_release", "'o', '', 'r', '', 'd'", "'d'"),)),
    Build("a minimum from the beginning", (("lock_release", "now + at_least * 1000", "held[2] + at_least * 1000"),)),
    Build("requested without a sticky holder", (("parts/ask", "'^~([^;]*)%.'", "'^~?([^;]*)%.'"),)),
    Build("tags are taken for a process", (("parts/ask", "'^~([^;]*)%.'", "'^~(.*)%.'"),)),
    Build("another request of an owner is its grant", (("parts/ask", "if held[2] == request then", "if true then"),)),
    Build("a new request keeps its old place in the queue", (("parts/ask", "      leave(request)\n", ""),)),
    Build("a caller that does not wait stays queued", (("parts/ask", _LEAVES, "    return"),)),
    Build("a renewal shortens", (("lock_renew", "if now + lease * 1000 >= deadline then", "if true then"),)),
    Build("only the first is renewed", (("lock_renew", "deadline > now then", "index == 1 and deadline > now then"),)),
    Build("withdrawn grant is not handed over", (("parts/withdraw", "pass(held[3], held[5], held[6])", _NOT_ON),)),
    Build("an owner withdraws all its requests", (("parts/withdraw", "held[2] == request and", ""),)),
    Build("an unsubscribed waiter counts as notified", (("parts/lock_waiters", "and listening(waiter[5])", ""),)),
    Build("a transfer for a whole lease", (("parts/ask", "math.min(lease, claim), request", "lease, request"),)),
    Build("the second looks as late as the last", (("parts/ask", "math.min(ahead * 50, LATE)", "LATE"),)),
    Build("a place ends late", ((_PLACES, "if waiter[1] > now then\n", "if waiter[1] >= now then\n"),)),
    Build("the dead are handed the lock", ((_PLACES, "if present(waiter) then return", "if true then return"),)),
    Build("never grants to a waiter that was unsubscribed", ((_PLACES, "(waiter[DEAF] and", "(false and"),)),
    Build(
        "a waiter that was unsubscribed is handed the lock forever",
        ((_PLACES, "waiter[LOOKS] + DEAF_LATE * 1000 > now", "true"),),
    ),
    Build(
        "a whole claim for waiters without a subscription",
        (("parts/lock_waiters", "claim_of(waiter, waiter[2])", "waiter[2]"),),
    ),
    Build("a waiter that polls counts as silent", ((_PLACES, "line.silent[channel] = nil", ""),)),
    Build("a skipped waiter is removed", ((_PLACES, "if ticket < line.head then", "if false then"),)),
    Build("a claim has no effect", (("parts/ask", "tonumber(ends) == tonumber(held[4] or nil)", "ends"),)),
    Build(
        "only a waiter that polls is first again",
        ((_PLACES, "math.min(line.head, line.bottom or line.head)", "line.head"),),
    ),
    Build("passed over for ever", ((_PLACES, "if bottom then tidy() end", ""),)),
)


def test_a_lock_with_every_option_matches_its_model(simulated: Server) -> None:
    check(LockOptionsMachine, simulated, Build())


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_broken_option_is_caught(simulated: Server, mutant: Build) -> None:
    check_caught(LockOptionsMachine, simulated, mutant)
