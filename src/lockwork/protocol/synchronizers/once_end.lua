-- Stores the outcome of a run until its period ends, and notifies waiters.
-- KEYS: once
-- ARGV: own_owner, own_fence, outcome, value
--   outcome: d(one), f(ailed) or l(ost)
-- Out of memory: goes on
-- Reply: 1 stored, now or before; 0 a newer run or a reset has replaced the run
-- Invariants: only the outcome of the newest run is stored; a run whose lease has ended may still end, unless another
--   run began
-- include: now
-- include: synchronizers/once
if owner ~= own_owner or stored_fence ~= own_fence or state == '' then return 0 end
if state == 'd' or state == 'f' or stored_state == 'l' then return state == outcome and 1 or 0 end
redis.call('HSET', once, 's', outcome, 'v', value)
set_expiry(math.max(ends, now))
notify_waiters()
return 1
