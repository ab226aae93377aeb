-- Ends the grant of any holder, passes the lock on, and notifies the holder's process.
-- KEYS: lock
-- ARGV: again: flag, fence, channels
--   again: an earlier try may have been applied; channels: beginning of all processes' channels
-- Out of memory: goes on
-- Reply: 1 ended; 0 that grant is over already
-- Invariants: only the grant with this fence is ended, so a call that is sent again does no harm
-- include: now
-- include: lock_waiters
local held = redis.call('HMGET', lock, 'o', 'f', 'd', 'h', 't')
if not held[1] or held[2] ~= fence or tonumber(held[3]) <= now then return again and 1 or 0 end
pass(held[2], held[4], held[5])
publish(channels .. string.match(held[1], '^[^:]*'), '! look ' .. lock)
return 1
