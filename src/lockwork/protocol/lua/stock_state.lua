-- Reads a stock's counts, after ending the reservations that ran out; can put units on sale, or take them off.
-- KEYS: <stock>
-- ARGV: total, add: number, request
--   add: units to add (negative: to take off); request: of the change ('' for none)
-- Reply: {total, sold, held, expired, 1 if more reservations wait to be ended, 0 if too few are on sale to take them off}
-- Invariants: total = available + held + sold; a change counts once; waiters get what comes back
-- include: now
-- include: stock
-- include: stock_waiters
open(total)
local more, changed = expire(), 1
if request ~= '' then
  -- the last hundred requests are known, so that one whose reply was lost may come again, even after others
  local added = redis.call('HGET', stock, 'added') or ''
  if not string.find(added, request, 1, true) then
    local counts = redis.call('HMGET', stock, 'total', 'sold', 'held')
    if counts[1] - counts[2] - counts[3] + add >= 0 then
      redis.call('HINCRBY', stock, 'total', add)
      redis.call('HSET', stock, 'added', string.sub(request .. ' ' .. added, 1, 1700))
    else
      changed = 0
    end
  end
end
serve()
local counts = redis.call('HMGET', stock, 'total', 'sold', 'held', 'expired')
return {tonumber(counts[1]), tonumber(counts[2]), tonumber(counts[3]), tonumber(counts[4]), more and 1 or 0, changed}
