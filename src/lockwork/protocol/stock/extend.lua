-- Extends a held reservation.
-- KEYS: <stock/stock>
-- ARGV: id, hold: number
--   hold: ms from now on at least
-- Reply: {EXTENDED, ms left}; {MISSING, 0}: it expired, was released or refunded; {CONFIRMED, 0}
-- Codes: extended=1, missing=0, confirmed=-1
-- Invariants: a reservation never gets shorter
-- include: now
-- include: stock/stock
local reservation = read_live_reservation(id)
if not reservation then return {MISSING, 0} end
if reservation.state == 'c' then return {CONFIRMED, 0} end
reservation.expires_us = math.max(reservation.expires_us, clock + hold * 1000)
write_reservation(id, reservation)
redis.call('ZADD', holds, reservation.expires_us, id)
return {EXTENDED, math.floor((reservation.expires_us - clock) / 1000)}
