-- Ends the grant of any holder, transfers the lock to the next waiter, and notifies the holder's process.
-- KEYS: lock
-- ARGV: again: flag, fence, channels
--   again: an earlier try may have been applied; channels: prefix of all processes' channels
-- Out of memory: goes on
-- Reply: 1 ended; 0 the grant had already ended
-- Invariants: only the grant with this fence is ended, so a repeated call does no harm
-- include: now
-- include: locks/waiters
local holder, held_fence, deadline, head, tail = unpack(redis.call('HMGET', lock, 'o', 'f', 'd', 'h', 't'))
if not holder or held_fence ~= fence or tonumber(deadline or 0) <= now then return again and 1 or 0 end
release_to_next(held_fence, deadline, head, tail)
publish(channels .. string.match(holder, '^[^:]*'), '! look ' .. lock)
return 1
