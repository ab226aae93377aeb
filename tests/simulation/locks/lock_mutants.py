"""Mutants: builds that lack one rule of the protocol. The checkers must catch each, or they prove nothing."""

from __future__ import annotations

from simulation.server import Build

_HELD = "if held[1] and deadline > now then\n    asks(channel)\n"

LOCKS = {
    "L1": (
        Build(
            "grants during a live lease",
            (("parts/ask", _HELD, _HELD.replace("now then", "now + 1000000 then", 1)),),
        ),
        Build(
            "grants a held lock",
            (("parts/ask", _HELD, _HELD.replace("held[1] and", "held[1] == owner and", 1)),),
        ),
        Build(
            "extends by too little",
            (("lock_renew", "'d', deadline, 'l', length)", "'d', deadline - 500000, 'l', length)"),),
        ),
    ),
    "L2": (
        Build(
            "forgets a fence that is ahead of the clock",
            (("parts/lock_waiters", "math.max(0, math.ceil((last - now) / 1000)) + MARGIN", "MARGIN"),),
        ),
        Build(
            "a fence from the clock alone",
            (("parts/lock_waiters", "if fence < now then fence = now end", "fence = now"),),
        ),
    ),
    "L3": (
        Build("an old grant's fence may release", (("lock_release", "held[2] ~= fence or", ""),)),
        Build("any owner may renew", (("lock_renew", "held[1] == owner and held[2] == fence and", ""),)),
        Build("abandoning ends any grant", (("parts/withdraw", "held[1] == owner and held[2] == request and", ""),)),
    ),
    "L4": (
        Build(
            "a lease grows by a backward clock step",
            (("parts/lock_waiters", "deadline <= now + length * 1000 then", "true then"),),
        ),
        Build(
            "a renewed lease grows by a backward clock step",
            (("lock_renew", "deadline = math.min(deadline, now + length * 1000)", ""),),
        ),
        Build(
            "dead waiters stay queued",
            (
                ("parts/waiters", "if waiter[1] > now then\n", "if true then\n"),
                ("parts/waiters", "if present(waiter) then return foremost(waiter) end", "do return waiter end"),
            ),
        ),
        Build(
            "a claim as long as the longest lease",
            (
                (
                    "parts/lock_waiters",
                    "local ms = claim_of(waiter, waiter[2])",
                    "local ms = 600000",
                ),
            ),
        ),
        Build(
            "the dead are handed all that is theirs",
            (("parts/waiters", "if present(waiter) then return foremost(waiter) end", "do return waiter end"),),
        ),
        Build("an unclaimed grant wakes no waiter", (("parts/waiters", "silent[channel] = now", ""),)),
        Build("waiters look too late", (("parts/ask", "check = math.max(check, 1)", "check = 60000"),)),
        Build(
            "the next waiter is not notified",
            (("parts/lock_waiters", "if deadline - now >= (LOOK - LATE) * 1000 then return end", "do return end"),),
        ),
        Build(
            "a lock without an expiry",
            (
                ("parts/lock_waiters", "redis.call('PEXPIRE', lock, math.max", "local _ = (math.max"),
                ("parts/lifetimes", "redis.call('PEXPIRE', key, math.max", "local _ = (math.max"),
            ),
        ),
    ),
}

LATE = Build("a call may arrive after it was sent again", ends="never")
WITHOUT_KILL = Build("calls of a user without CLIENT KILL do not look for what has ended", careful=False)
LOCKS["L6"] = (LATE, Build("a call may arrive after it was given up", ends="when it sends again"))
