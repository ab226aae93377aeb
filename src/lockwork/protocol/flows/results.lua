-- Reads outcomes of jobs of a flow, up to the size limit of one call.
-- Flags: no-writes
-- KEYS: flows
-- ARGV: flow, (number)
-- Reply: of the first jobs, at least one: its outcome, or '' if it has not ended or is unknown
local BYTES, read, reply = 1048576, 0, {} -- soft limit
for at = FIRST, #ARGV do
  if read > BYTES then break end
  local blob = redis.call('HGET', flows, flow .. ' r' .. ARGV[at]) or ''
  reply[#reply + 1] = blob
  read = read + #blob
end
return reply
