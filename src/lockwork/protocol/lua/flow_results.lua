-- Reads how some jobs of a flow ended, as many as one call should.
-- KEYS: flows
-- ARGV: flow, (number)
-- Reply: of the first jobs, one at least: how it ended, or '' when it has not, or nothing is known of it
local BYTES, read, reply = 1048576, 0, {} -- or a little more
for at = FIRST, #ARGV do
  if read > BYTES then break end
  local blob = redis.call('HGET', flows, flow .. ' r' .. ARGV[at]) or ''
  reply[#reply + 1] = blob
  read = read + #blob
end
return reply
