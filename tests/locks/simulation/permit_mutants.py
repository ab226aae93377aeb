"""Mutants of permits: each lacks one rule, and the checker must catch it."""

from __future__ import annotations

from simulator.server import Build

MUTANTS = (
    Build("permits of ended owners are renewed", checks_owners=False),
    Build("one more than there are", (("permits/parts/waiters", "> capacity", "> capacity + 1"),)),
    Build("newcomers do not look whether units are free", (("permits/acquire", "and used + units <= capacity", ""),)),
    Build(
        "small requests pass a large one",
        (
            (
                "permits/parts/waiters",
                "      notify_first_waiters(own_request, false)\n      return fence, deadline, false\n    end\n",
                "    else\n",
            ),
            (
                "permits/parts/waiters",
                "\n    waiters.head = waiters.head + 1\n    if waiter.request == own_request then",
                "\n    if waiter.request == own_request then",
            ),
            (
                "permits/parts/waiters",
                "claim_fence, claim_ends)))\n    end\n",
                "claim_fence, claim_ends)))\n    end\n    end\n    waiters.head = waiters.head + 1\n",
            ),
        ),
    ),
    Build(
        "a lease grows by a backward clock step",
        (("permits/parts/permits", "tonumber(newest or 0) - now)", "0)"),),
    ),
    Build(
        "a released grant's units stay taken",
        (("permits/parts/permits", "used, count = used - holder.units, count - 1", "count = count - 1"),),
    ),
    Build(
        "dead holders keep their units",
        (
            (
                "permits/parts/permits",
                "if holder.deadline <= now then\n      remove_holder(fence, holder)",
                "if false then",
            ),
            # otherwise waiters would call every 2 ms, for the whole run
            ("permits/parts/permits", "      earliest = key\n", "      earliest = math.max(key, now + 1000000)\n"),
        ),
    ),
    Build(
        "a request is granted again",
        (
            (
                "permits/acquire",
                "if holder then\n  if holder.deadline > now then",
                "if holder then\n  if holder.deadline > now + 1000000 then",
            ),
        ),
    ),
    Build("a fence from the clock alone", (("permits/parts/permits", "math.max(last_fence + 1, now)", "now"),)),
    Build(
        "a release wakes no waiter",
        (
            ("permits/release", "grant_released()", "save_permits()"),
            ("permits/acquire", "check = math.min(left + 2, FIRST_CHECK_MS)", "check = CHECK_MS"),
        ),
    ),
    Build(
        "a downgrade keeps all units",
        (("permits/downgrade", "used = used - holder.units + remaining\n", ""),),
    ),
    Build(
        "a claim as long as the longest lease",
        (
            (
                "permits/parts/waiters",
                "local claim = claim_ms(waiter, waiter.claim_ms, now)",
                "local claim = 600000",
            ),
        ),
    ),
    Build(
        "a key without an expiry",
        (
            ("permits/parts/permits", "redis.call('PEXPIRE', permits, math.max(left,", "local _ = (math.max(left,"),
            ("permits/renew", "outlive(permits, latest)", ""),
        ),
    ),
    Build(
        "the dead are handed all that is theirs",
        (
            (
                "permits/parts/permits",
                "if holder.unclaimed_channel then mark_unresponsive(holder.unclaimed_channel) end",
                "",
            ),
        ),
    ),
    Build(
        "the heap forgets to sink", (("permits/parts/permits", "if child_key >= key then break end", "do break end"),)
    ),
)
