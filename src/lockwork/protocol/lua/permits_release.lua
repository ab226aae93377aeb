-- Ends a grant, and hands its units to the next live waiters in the same step.
-- KEYS: permits
-- ARGV: again: flag, owner, fence
--   again: an earlier try may have been applied
-- Out of memory: goes on
-- Reply: 1 released; 0 not the owner's any more
-- Invariants: only the grant with this fence is ended
-- include: now
-- include: permits
-- include: permit_waiters
local held = holder(fence)
-- whether the earlier try ended the grant or came too late cannot be told any more: its sender knows when it began
if not held or held[2] ~= owner then return again and 1 or 0 end
drop(fence, held)
if line.count > 0 then
  sweep()
  serve('')
end
save()
return held[1] > now and 1 or 0
