-- Ends the grant of any holder, passes its units on, and notifies the holder's process.
-- KEYS: permits
-- ARGV: again: flag, fence, channels
--   again: an earlier try may have been applied; channels: beginning of all processes' channels
-- Out of memory: goes on
-- Reply: 1 ended; 0 that grant is over already
-- Invariants: only the grant with this fence is ended, so a call that is sent again does no harm
-- include: now
-- include: permits
-- include: permit_waiters
local held = holder(fence)
if not held or held[1] <= now then return again and 1 or 0 end
drop(fence, held)
sweep()
serve('')
save()
publish(channels .. string.match(held[2], '^[^:]*'), '! look ' .. permits)
return 1
