"""Mutants of permits."""

from __future__ import annotations

from simulator.server import Build

_PART, _LINE = "permits/parts/permits", "permits/parts/waiters"
MUTANTS = (
    Build("newcomers overtake the waiters", (("permits/acquire", "and waiters.head > waiters.tail and", "and"),)),
    Build(
        "a refreshed waiter sets the number of permits again",
        (("permits/acquire", "not ticket or units > capacity", "true"),),
    ),
    Build(
        "any owner may release",
        (("permits/release", "if not holder or holder.owner ~= owner then", "if not holder then"),),
    ),
    Build("a fence that stays", ((_PART, "math.max(last_fence + 1, now)", "math.max(last_fence, now)"),)),
    Build("grants to dead waiters", (("parts/waiters", "if waiter.ends_at_us > now then\n", "if true then\n"),)),
    Build(
        "the new first waiter is not notified",
        ((_LINE, "if waiter.next_check_us <= now + FIRST_CHECK_MS * 1000 and not always then", "do"),),
    ),
    Build("revives a lapsed grant", (("permits/renew", " and deadline > permits_now then", " then"),)),
    Build("any owner may renew", (("permits/renew", "holder == owner and", "holder and"),)),
    Build(
        "dead holders keep their units",
        ((_PART, "if holder.deadline <= now then\n      remove_holder(fence, holder)", "if false then"),),
    ),
    Build(
        "the renewed are swept",
        ((_PART, "if holder.deadline <= now then\n      remove_holder", "if key <= now then\n      remove_holder"),),
    ),
    Build(
        "a withdrawn grant stays",
        (("permits/abandon", "if holder then remove_holder(fence, holder) else", "if not holder then"),),
    ),
    Build("a non-holder may downgrade", (("permits/downgrade", "or holder.owner ~= owner or", "or"),)),
    Build(
        "only one of a batch is let in",
        ((_LINE, "for _ = 1, 100 do\n    local waiter", "for _ = 1, 1 do\n    local waiter"),),
    ),
)
