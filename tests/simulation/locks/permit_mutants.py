"""Broken builds of permits: each lacks one rule, and the checker must notice."""

from __future__ import annotations

from simulation.server import Build

MUTANTS = (
    Build("one more than there are", (("parts/permit_waiters", "> capacity", "> capacity + 1"),)),
    Build("newcomers do not look whether units are free", (("permits_acquire", "and used + units <= capacity", ""),)),
    Build(
        "small requests pass a large one",
        (
            (
                "parts/permit_waiters",
                "      alert(mine, false)\n      return fence, ends, false\n    end\n",
                "    else\n",
            ),
            (
                "parts/permit_waiters",
                "\n    line.head = line.head + 1\n    if waiter[3] == mine then",
                "\n    if waiter[3] == mine then",
            ),
            (
                "parts/permit_waiters",
                "given, limit)))\n    end\n",
                "given, limit)))\n    end\n    end\n    line.head = line.head + 1\n",
            ),
        ),
    ),
    Build(
        "a lease grows by a backward clock step",
        (("parts/permits", "tonumber(found[11] or 0) - now)", "0)"),),
    ),
    Build(
        "a released grant's units stay taken",
        (("parts/permits", "used, count = used - held[4], count - 1", "count = count - 1"),),
    ),
    Build(
        "dead holders keep their units",
        (
            ("parts/permits", "if held[1] <= now then\n      drop(id, held)", "if false then"),
            # or those who wait would ask every 2 ms, for the whole run
            ("parts/permits", "      soonest = key\n", "      soonest = math.max(key, now + 1000000)\n"),
        ),
    ),
    Build(
        "a request is granted again",
        (
            (
                "permits_acquire",
                "if held then\n  if held[1] > now then",
                "if held then\n  if held[1] > now + 1000000 then",
            ),
        ),
    ),
    Build("a fence from the clock alone", (("parts/permits", "math.max(last + 1, now)", "now"),)),
    Build(
        "a release wakes no waiter",
        (
            ("permits_release", "serve('')", ""),
            ("permits_acquire", "check = math.min(left + 2, OFTEN)", "check = LOOK"),
        ),
    ),
    Build(
        "a downgrade keeps all units",
        (("permits_downgrade", "used, held[4], held[6] = used - held[4] + kept, kept, nil", "held[4] = kept"),),
    ),
    Build(
        "a claim as long as the longest lease",
        (
            (
                "parts/permit_waiters",
                "waiter[3], claim_of(waiter, waiter[2]), waiter[8]",
                "waiter[3], 600000, waiter[8]",
            ),
        ),
    ),
    Build(
        "a key without an expiry",
        (
            ("parts/permits", "redis.call('PEXPIRE', permits, math.max(left,", "local _ = (math.max(left,"),
            ("permits_renew", "outlive(permits, latest)", ""),
        ),
    ),
    Build("the dead are handed all that is theirs", (("parts/permits", "if held[6] then unclaimed(held[6]) end", ""),)),
    Build("the heap forgets to sink", (("parts/permits", "if least >= key then break end", "do break end"),)),
)
