-- Withdraws a request: removes its waiter, or releases its grant to the next waiters.
-- KEYS: permits
-- ARGV: owner, request
-- Out of memory: goes on
-- Reply: 1
-- Invariants: grants of other requests do not change
-- include: now
-- include: permits/permits
-- include: permits/waiters
if count == 0 and waiters.count <= 0 then return 1 end
local fence = redis.call('HGET', permits, 'r' .. request)
local holder = read_holder(fence)
if holder then remove_holder(fence, holder) else remove_request(request) end
grant_released()
return 1
