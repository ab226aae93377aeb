"""Mutants: builds that lack one rule of the protocol. The checkers must catch each, or they prove nothing."""

from __future__ import annotations

from simulator.server import Build

_HELD = "if holder and deadline > now then\n    mark_alive(channel)\n"

LOCKS = {
    "L1": (
        Build(
            "grants during a live lease",
            (("locks/parts/ask", _HELD, _HELD.replace("now then", "now + 1000000 then", 1)),),
        ),
        Build(
            "grants a held lock",
            (("locks/parts/ask", _HELD, _HELD.replace("holder and", "holder == owner and", 1)),),
        ),
        Build(
            "extends by too little",
            (("locks/renew", "'d', deadline, 'l', held_lease)", "'d', deadline - 500000, 'l', held_lease)"),),
        ),
    ),
    "L9": (Build("grants of ended owners are renewed", checks_owners=False),),
    "L2": (
        Build(
            "forgets a fence that is ahead of the clock",
            (("locks/parts/waiters", "math.max(0, math.ceil((last_fence - now) / 1000)) + MARGIN_MS", "MARGIN_MS"),),
        ),
        Build(
            "a fence from the clock alone",
            (("locks/parts/waiters", "if fence < now then fence = now end", "fence = now"),),
        ),
    ),
    "L3": (
        Build("an old grant's fence may release", (("locks/release", "held_fence ~= fence or", ""),)),
        Build("any owner may renew", (("locks/renew", "holder == owner and held_fence == fence and", ""),)),
        Build(
            "abandoning ends any grant",
            (("locks/parts/withdraw", "holder == owner and holder_request == request and", ""),),
        ),
    ),
    "L4": (
        Build(
            "a lease grows by a backward clock step",
            (("locks/parts/waiters", "deadline <= now + lease * 1000 then", "true then"),),
        ),
        Build(
            "a renewed lease grows by a backward clock step",
            (("locks/renew", "deadline = math.min(deadline, now + held_lease * 1000)", ""),),
        ),
        Build(
            "dead waiters stay queued",
            (
                ("parts/waiters", "if waiter.ends_at_us > now then\n", "if true then\n"),
                (
                    "parts/waiters",
                    "if can_receive(waiter) then return first_alive_of_same_process(waiter) end",
                    "do return waiter end",
                ),
            ),
        ),
        Build(
            "a claim as long as the longest lease",
            (
                (
                    "locks/parts/waiters",
                    "local lease = claim_ms(waiter, waiter.claim_ms, now)",
                    "local lease = 600000",
                ),
            ),
        ),
        Build(
            "the dead are handed all that is theirs",
            (
                (
                    "parts/waiters",
                    "if can_receive(waiter) then return first_alive_of_same_process(waiter) end",
                    "do return waiter end",
                ),
            ),
        ),
        Build("an unclaimed grant wakes no waiter", (("parts/waiters", "unresponsive[channel] = now", ""),)),
        Build("waiters look too late", (("locks/parts/checks", "return ahead <= 0 and", "return 60000 or"),)),
        Build(
            "the next waiter is not notified",
            (
                (
                    "locks/parts/waiters",
                    "if is_checked_in_time(deadline) then return end",
                    "do return end",
                ),
            ),
        ),
        Build(
            "a lock without an expiry",
            (
                ("locks/parts/waiters", "redis.call('PEXPIRE', lock, math.max", "local _ = (math.max"),
                ("parts/lifetimes", "redis.call('PEXPIRE', key, math.max", "local _ = (math.max"),
            ),
        ),
    ),
}

LATE = Build("a call may arrive after it was sent again", ends="never")
WITHOUT_KILL = Build("calls of a user without CLIENT KILL do not look for what has ended", careful=False)
LOCKS["L6"] = (LATE, Build("a call may arrive after it was given up", ends="when it sends again"))
