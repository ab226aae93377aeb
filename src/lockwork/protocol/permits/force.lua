-- Ends the grant of any holder, grants its units to the next waiters, and notifies the holder's process.
-- KEYS: permits
-- ARGV: again: flag, fence, channels
--   again: an earlier try may have been applied; channels: prefix of all processes' channels
-- Out of memory: goes on
-- Reply: 1 ended; 0 the grant had already ended
-- Invariants: only the grant with this fence is ended, so a repeated call does no harm
-- include: now
-- include: permits/permits
-- include: permits/waiters
local holder = read_holder(fence)
if not holder or holder.deadline <= now then return again and 1 or 0 end
remove_holder(fence, holder)
remove_expired_holders()
grant_to_waiters('')
save_permits()
publish(channels .. string.match(holder.owner, '^[^:]*'), '! look ' .. permits)
return 1
