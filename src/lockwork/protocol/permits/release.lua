-- Ends a grant, and grants its units to the next live waiters in the same step.
-- KEYS: permits
-- ARGV: again: flag, owner, fence
--   again: an earlier try may have been applied
-- Out of memory: goes on
-- Reply: 1 released; 0 the owner no longer held it
-- Invariants: only the grant with this fence is ended
-- include: now
-- include: permits/permits
-- include: permits/waiters
local holder = read_holder(fence)
-- the server cannot tell if the earlier try was in time: the caller compares its time of sending
if not holder or holder.owner ~= owner then return again and 1 or 0 end
remove_holder(fence, holder)
grant_released()
return holder.deadline > now and 1 or 0
