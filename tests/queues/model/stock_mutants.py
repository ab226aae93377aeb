"""Mutants of the stock."""

from __future__ import annotations

from simulator.server import Build

_LINE = "stock/parts/waiters"
MUTANTS = (
    Build("forgets the limit", (("stock/reserve", "if limit > 0 and", "if limit > 99 and"),)),
    Build("forgets keys", (("stock/parts/stock", "redis.call('HSET', stock, 'k' .. key, id)", "local _"),)),
    Build("adds twice", (("stock/state", "if not string.find(requests, request, 1, true) then", "if true then"),)),
    Build(
        "sells expired units",
        (("stock/end", "read_live_reservation(id)", "read_reservation(id)"), ("stock/end", "\nend_expired()", "")),
    ),
    Build("gives back twice", (("stock/parts/stock", "redis.call('HDEL', stock, 'r' .. id)", ""),)),
    Build("a refund stays sold", (("stock/parts/stock", "reservation.state == 'h' and 'held' or 'sold'", "'held'"),)),
    Build("refunds a held reservation", (("stock/end", "(verb == 'f' and held and STILL_HELD)", "nil"),)),
    Build("withdraws sold units", (("stock/state", "+ add >= 0 then", "+ add >= -99 then"),)),
    Build("returns no units, with a job", (("stock/end", "(done and DONE) or MISSING", "DONE"),)),
    Build("does not know its own job", (("stock/end", "done = redis.call('HEXISTS', jobs, job)", "done = 0"),)),
    Build(
        "extending shortens",
        (("stock/extend", "math.max(reservation.expires_us, clock + hold * 1000)", "clock + hold * 1000"),),
    ),
    Build("overtakes waiters", (("stock/reserve", "  reserve_for_waiters()\n", ""),)),
    Build(
        "grants too many units", ((_LINE, "on_sale, served = on_sale - reserved, served + 1", "served = served + 1"),)
    ),
    Build("grants beyond the limit", ((_LINE, "buyer_units + units <= waiter.limit", "true"),)),
    Build(
        "grants without expiry",
        ((_LINE, "math.min(claim_ms(waiter, CLAIM_MS, clock), waiter.claim_ms)", "waiter.claim_ms"),),
    ),
    Build("claims twice", (("stock/wait", "and reservation.unclaimed_hold_ms and", "and"),)),
    Build("a leaving buyer keeps handed-over units", (("stock/leave", "reservation.unclaimed_hold_ms or ", ""),)),
    Build("serves the dead", ((_LINE, "if waiter and waiter.ends_at_us <= clock then", "if false then"),)),
)
