-- Lets a held reservation last longer.
-- KEYS: <stock>
-- ARGV: id, hold: number
--   hold: ms from now on at least
-- Reply: {1, ms left}; {0, 0} no such reservation (it expired, was released or refunded); {-1, 0} it is confirmed
-- Invariants: a reservation never gets shorter
-- include: now
-- include: stock
local kept = reservation(id)
if not kept or (kept[1] == 'h' and kept[5] <= clock) then return {0, 0} end
if kept[1] == 'c' then return {-1, 0} end
local expiry = math.max(kept[5], clock + hold * 1000)
store(id, 'h', kept[2], kept[3], kept[4], expiry, kept[6], kept[7])
redis.call('ZADD', holds, expiry, id)
return {1, math.floor((expiry - clock) / 1000)}
