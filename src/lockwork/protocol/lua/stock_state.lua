-- Reads a stock's counts, after ending the reservations that ran out; can add units to it.
-- KEYS: books, holds
-- ARGV: total, units to add, request of the addition ('' for none)
-- Reply: {total, sold, held, expired, 1 if more reservations wait to be ended}
-- Invariants: total = available + held + sold; an addition counts once
-- include: now
-- include: stock
open(ARGV[1])
local more = expire()
if ARGV[3] ~= '' then
  -- the last hundred requests are known, so that one whose reply was lost may come again, even after others
  local added = redis.call('HGET', books, 'added') or ''
  if not string.find(added, ARGV[3], 1, true) then
    redis.call('HINCRBY', books, 'total', ARGV[2])
    redis.call('HSET', books, 'added', string.sub(ARGV[3] .. ' ' .. added, 1, 1700))
  end
end
local counts = redis.call('HMGET', books, 'total', 'sold', 'held', 'expired')
return {tonumber(counts[1]), tonumber(counts[2]), tonumber(counts[3]), tonumber(counts[4]), more and 1 or 0}
