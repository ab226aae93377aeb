-- Reads the running jobs of more worker sessions, up to the limit of one call.
-- Flags: no-writes
-- KEYS: runs*
-- ARGV: (cursor)
--   cursor: position in each run hash; '0': start at the beginning
-- Reply: per session, {id, token, ...} and the next cursor: '0' at the end, '' if no job was read
-- include: search/read_runs
local reply = {}
for at, run in ipairs(runs) do read_run(reply, run, ARGV[FIRST + at - 1]) end
return reply
