-- Reads a stock's counts as they are; reservations that ran out may still be among the held units.
-- KEYS: stock: hash
-- Reply: {} if there is no such stock; else {total, sold, held, expired}
-- Invariants: nothing is written
local counts = redis.call('HMGET', stock, 'total', 'sold', 'held', 'expired')
if not counts[1] then return {} end
return {tonumber(counts[1]), tonumber(counts[2]), tonumber(counts[3]), tonumber(counts[4])}
