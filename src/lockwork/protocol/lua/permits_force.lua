-- Ends the grant of any holder, passes its units on, and notifies the holder's process.
-- KEYS: permits
-- ARGV: again (1: an earlier try may have been applied), fence, beginning of all processes' channels
-- Reply: 1 ended; 0 that grant is over already
-- Invariants: only the grant with this fence is ended, so a call sent again harms nobody
-- include: now
redis.call('HDEL', KEYS[1], '') -- a script that has deleted may go on writing when the server is out of memory
-- include: permits
-- include: permits_line
local held = holder(ARGV[2])
if not held or held[1] <= now then return tonumber(ARGV[1]) end
drop(ARGV[2], held)
sweep()
serve('')
save()
publish(ARGV[3] .. string.match(held[2], '^[^:]*'), '! look ' .. books)
return 1
