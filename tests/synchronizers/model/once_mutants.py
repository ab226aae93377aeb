"""Mutants of work that runs once per period."""

from __future__ import annotations

from simulator.server import Build

_PART = "synchronizers/parts/once"
MUTANTS = (
    Build(
        "forgets its own run",
        (("synchronizers/once_begin", "if stored_state == 'r' and request == own_request then", "if false then"),),
    ),
    Build(
        "runs again when it is done",
        (("synchronizers/once_begin", "elseif state ~= '' and", "elseif state == 'l' and"),),
    ),
    Build("never runs again", (("synchronizers/once_begin", "(ends > now or", "(true or"),)),
    Build(
        "repeats a lost run", (("synchronizers/once_begin", "not (state == 'l' and again_if_lost)", "state ~= 'l'"),)
    ),
    Build("never repeats a lost run", (("synchronizers/once_begin", "not (state == 'l' and again_if_lost)", "true"),)),
    Build("forgets the waiters of the run", (("synchronizers/once_begin", "or fence == awaited_fence", ""),)),
    Build(
        "runs for a caller that gave up",
        (("synchronizers/once_begin", "if is_known(once, 'x', own_request) then", "if false then"),),
    ),
    Build("the fence does not rise", (("synchronizers/once_begin", "math.max(fence + 1, now)", "math.max(fence, 7)"),)),
    Build("stores over another run", (("synchronizers/once_end", "or stored_fence ~= own_fence", ""),)),
    Build("a failure turns into a result", (("synchronizers/once_end", "if state == 'd' or state == 'f' or", "if"),)),
    Build(
        "notifies no waiter",
        ((_PART, "publish(string.sub(name, 2), once)", ""),),
    ),
    Build("notifies again", ((_PART, "redis.call('HDEL', once, unpack(notified))", ""),)),
    Build("revives a lost run", (("synchronizers/once_renew", "and deadline > now then", "then"),)),
    Build("resets twice", (("synchronizers/once_reset", "not is_known(once, 'z', own_request)", "true"),)),
    Build("gives up another's run", (("synchronizers/once_abandon", "and request == own_request then", "then"),)),
)
