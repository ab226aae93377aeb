"""Mutants of the lock."""

from __future__ import annotations

from simulator.server import Build

_TICKET = "ticket = new_ticket()"
_RISE = ("locks/parts/waiters", "(tonumber(last_fence) or 0) + 1", "(tonumber(last_fence) or 0)")
_CLOCK = ("locks/parts/waiters", "if fence < now then", "if fence == 0 then")
MUTANTS = (
    Build(
        "a grant sets no expiry",
        (
            ("locks/parts/expiry", "fence < now and ", ""),
            ("locks/parts/expiry", "math.floor(now / WINDOW_US)", "math.floor(fence / WINDOW_US)"),
        ),
    ),
    Build("an expiry once in a minute", (("locks/parts/expiry", "WINDOW_US = 10000000", "WINDOW_US = 60000000"),)),
    Build("serves the newest waiter first", (("locks/parts/ask", _TICKET, f"{_TICKET} waiters.head = ticket"),)),
    Build(
        "any owner may release", (("locks/release", "holder ~= owner or held_fence ~= fence or", "not deadline or"),)
    ),
    Build("a fence that stays", (_RISE, _CLOCK)),
    Build("grants to dead waiters", (("parts/waiters", "if waiter.ends_at_us > now then\n", "if true then\n"),)),
    Build("revives a lapsed grant", (("locks/renew", " and deadline > now then", " then"),)),
)
