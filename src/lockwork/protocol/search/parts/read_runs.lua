-- Reading the running jobs of worker sessions, in bounded steps.
local may_read = 5000 -- jobs that one call reads

-- Append the jobs of a run hash from a cursor on ('0': from the beginning) as {id, token, ...}, and the next cursor:
-- '0' at the end, '' if this call read no job.
local function read_run(reply, run, cursor)
  local next_cursor, held = '', {}
  if may_read > 0 then next_cursor, held = unpack(redis.call('HSCAN', run, cursor, 'COUNT', may_read)) end
  may_read = may_read - #held / 2
  reply[#reply + 1] = held
  reply[#reply + 1] = next_cursor
end
