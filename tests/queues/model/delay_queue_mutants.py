"""Mutants of the delay queue."""

from __future__ import annotations

from simulator.server import Build

_PART = "delay_queue/parts/delay_queue"
_DUE = "ZRANGEBYSCORE', entries, '-inf', now"
_MOVED = "(score ~= '' and math.floor(tonumber(due)) ~= tonumber(score))"
MUTANTS = (
    Build("adds again", (("delay_queue/add", "if result then", "if false then"),)),
    Build("removes again", (("delay_queue/remove", "if result then", "if false then"),)),
    Build("forgets at once", ((_PART, "now - log_since_us >= RETENTION_MS * 1000", "true"),)),
    Build("replaces an item that it should keep", (("delay_queue/add", "'NX'", "'CH'"),)),
    Build("keeps an item that it should replace", (("delay_queue/add", "'CH'", "'NX'"),)),
    Build("removes a moved item", (("delay_queue/remove", _MOVED, "false"),)),
    Build("takes early", (("delay_queue/pop", "'-inf', now, 'WITHSCORES'", "'-inf', now + 1000000, 'WITHSCORES'"),)),
    Build("takes the newest", (("delay_queue/pop", _DUE, "ZREVRANGEBYSCORE', entries, now, '-inf'"),)),
    Build("notifies one of many", (("delay_queue/add", "notify_waiters(count)", "notify_waiters(1)"),)),
    Build(
        "no waiter takes over the watch",
        (("delay_queue/pop", "if remove_waiter(request) and first_id or", "remove_waiter(request)\nif"),),
    ),
    Build("puts no item back", (("delay_queue/abandon", "if #pairs > 0 then", "if false then"),)),
    Build("puts back over a newer item", (("delay_queue/abandon", "'NX'", "'CH'"),)),
    Build("an abandoned pop takes", (("delay_queue/abandon", "remember(request, cmsgpack.pack({}), 1)", ""),)),
    Build("the dead stay first",
          (("delay_queue/pop", "if not waiter or waiter.ends_at_us <= now then", "if not waiter then"),)),
)  # fmt: skip
