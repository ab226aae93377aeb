-- Reads a stock's counts after ending expired reservations; can also put units on sale, or take them off.
-- KEYS: <stock/stock>
-- ARGV: total, add: number, request
--   add: units to add (negative: to take off); request: of the change ('' for none)
-- Indexed: stock
-- Reply: {total, sold, held, expired, 1 if more reservations have to be ended, 0 if too few units are on sale to take
--   them off, the stock's first number of units}
-- Invariants: total = available + held + sold; a change counts once; waiters get the units
-- include: now
-- include: stock/stock
-- include: stock/waiters
create_stock(total)
local more, changed = end_expired(), 1
if request ~= '' then
  -- the last hundred requests, so that a call whose reply was lost can be repeated, even after others
  local requests = redis.call('HGET', stock, 'added') or ''
  if not string.find(requests, request, 1, true) then
    if read_units('') + add >= 0 then
      redis.call('HINCRBY', stock, 'total', add)
      redis.call('HSET', stock, 'added', string.sub(request .. ' ' .. requests, 1, 1700))
    else
      changed = 0
    end
  end
end
reserve_for_waiters()
local all, sold, held, expired = unpack(redis.call('HMGET', stock, 'total', 'sold', 'held', 'expired'))
return {tonumber(all), tonumber(sold), tonumber(held), tonumber(expired), more and 1 or 0, changed, created_with}
