-- Counts the jobs of worker sessions.
-- Flags: no-writes
-- KEYS: runs*
-- Reply: number of jobs per session
local reply = {}
for at, run in ipairs(runs) do reply[at] = redis.call('HLEN', run) end
return reply
