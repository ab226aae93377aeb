-- Deletes a stock: its units, sales, reservations and waiters.
-- KEYS: <stock/stock>; deleted
-- ARGV: request
-- Out of memory: goes on
-- Reply: 1 deleted, now or before; 0 it does not exist
-- Invariants: a request deletes once, so a stock that was created again is not deleted
-- include: now
-- include: stock/stock
-- include: stock/waiters
local requests = redis.call('GET', deleted) or ''
if string.find(requests, request, 1, true) then return 1 end
if redis.call('EXISTS', stock) == 0 then return 0 end
notify_first_waiter()
redis.call('UNLINK', stock, holds)
redis.call('SET', deleted, string.sub(request .. ' ' .. requests, 1, 1700), 'PX', 120000)
return 1
