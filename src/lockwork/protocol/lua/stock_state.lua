-- Reads a stock's counts, after ending the reservations that ran out; can put units on sale, or take them off.
-- KEYS: books, holds
-- ARGV: total, units to add (negative: to take off), request of the change ('' for none)
-- Reply: {total, sold, held, expired, 1 if more reservations wait to be ended, 0 if too few are on sale to take them off}
-- Invariants: total = available + held + sold; a change counts once; who waits gets what comes
-- include: now
-- include: stock
-- include: stock_line
open(ARGV[1])
local more, changed = expire(), 1
if ARGV[3] ~= '' then
  -- the last hundred requests are known, so that one whose reply was lost may come again, even after others
  local added = redis.call('HGET', books, 'added') or ''
  if not string.find(added, ARGV[3], 1, true) then
    local counts = redis.call('HMGET', books, 'total', 'sold', 'held')
    if counts[1] - counts[2] - counts[3] + ARGV[2] >= 0 then
      redis.call('HINCRBY', books, 'total', ARGV[2])
      redis.call('HSET', books, 'added', string.sub(ARGV[3] .. ' ' .. added, 1, 1700))
    else
      changed = 0
    end
  end
end
serve()
local counts = redis.call('HMGET', books, 'total', 'sold', 'held', 'expired')
return {tonumber(counts[1]), tonumber(counts[2]), tonumber(counts[3]), tonumber(counts[4]), more and 1 or 0, changed}
