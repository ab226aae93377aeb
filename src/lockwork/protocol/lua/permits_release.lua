-- Ends a grant, and hands its units to the next live waiters in the same step.
-- KEYS: permits
-- ARGV: again (1: an earlier try may have been applied), owner, fence
-- Reply: 1 released; 0 not the owner's any more
-- Invariants: only the grant with this fence is ended
-- include: now
redis.call('HDEL', KEYS[1], '') -- a script that has deleted may go on writing when the server is out of memory
-- include: permits
-- include: permits_line
local held = holder(ARGV[3])
-- whether the earlier try ended the grant or came too late, nobody can tell any more: its sender knows when it began
if not held or held[2] ~= ARGV[2] then return tonumber(ARGV[1]) end
drop(ARGV[3], held)
if line.count > 0 then
  sweep()
  serve('')
end
save()
return held[1] > now and 1 or 0
