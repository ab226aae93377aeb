-- Ends the grant of any holder, passes the lock on, and notifies the holder's process.
-- KEYS: lock
-- ARGV: again (1: an earlier try may have been applied), fence, beginning of all processes' channels
-- Reply: 1 ended; 0 that grant is over already
-- Invariants: only the grant with this fence is ended, so a call sent again harms nobody
-- include: now
-- include: line
redis.call('HDEL', KEYS[1], '') -- a script that has deleted may go on writing when the server is out of memory
local held = redis.call('HMGET', lock, 'o', 'f', 'd', 'h', 't')
if not held[1] or held[2] ~= ARGV[2] or tonumber(held[3]) <= now then return tonumber(ARGV[1]) end
pass(held[2], held[4], held[5])
publish(ARGV[3] .. string.match(held[1], '^[^:]*'), '! look ' .. lock)
return 1
