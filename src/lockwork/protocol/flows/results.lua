-- Reads outcomes of jobs of a flow, up to the size limit of one call.
-- Flags: no-writes
-- KEYS: flows
-- ARGV: flow, (number)
-- Reply: of the first jobs, at least one: its outcome, or '' if it has not ended or is unknown, or {outcome, queue} if the
--   job is in another queue; or {{}, queue}: the home of the flow, if this queue has only a part of it
local fine, flow_record = pcall(cmsgpack.unpack, redis.call('HGET', flows, flow) or '')
if not fine or type(flow_record) ~= 'table' then flow_record = {} end
if flow_record.home then return {{}, flow_record.home} end
local BYTES, read, reply = 1048576, 0, {} -- soft limit
for at = FIRST, #ARGV do
  if read > BYTES then break end
  local blob = redis.call('HGET', flows, flow .. ' r' .. ARGV[at]) or ''
  local name = flow_record.parts and redis.call('HGET', flows, flow .. ' q' .. ARGV[at])
  reply[#reply + 1] = name and {blob, name} or blob
  read = read + #blob
end
return reply
