-- Reduces the units of a holder, and grants the rest to the next live waiters in the same step.
-- KEYS: permits
-- ARGV: owner, fence, units: number
--   units: to keep
-- Out of memory: goes on
-- Reply: 1 the holder has no more than these units; 0 the grant has ended
-- Invariants: only the grant with this fence shrinks; its deadline and its fence do not change
-- include: now
-- include: permits/permits
-- include: permits/waiters
local holder = read_holder(fence)
if not holder or holder.owner ~= owner or holder.deadline <= now then return 0 end
local remaining = math.min(holder.units, units)
used = used - holder.units + remaining
holder.units, holder.unclaimed_channel = remaining, nil
redis.call('HSET', permits, 'g' .. fence, pack_holder(holder))
grant_released()
return 1
