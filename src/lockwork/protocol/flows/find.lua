-- Finds flows, by one step of a scan; not the parts of flows of other queues.
-- Flags: no-writes
-- KEYS: flows: hash
-- ARGV: cursor, match, step: number
--   match: the pattern of flows' ids; step: fields per scan step
-- Reply: {next cursor, fields of the hash, then per flow: id, record, the outcome letter of its first failure or ''}
-- Invariants: a flow that exists during the whole scan is returned at least once
local next_cursor, fields = unpack(redis.call('HSCAN', flows, cursor, 'MATCH', match, 'COUNT', step))
local reply = {next_cursor, redis.call('HLEN', flows)}
for at = 1, #fields, 2 do
  local id, packed = fields[at], fields[at + 1]
  local fine, record = pcall(cmsgpack.unpack, packed)
  local readable = fine and type(record) == 'table'
  local failure = readable and tonumber(record.first_failure) or 0
  local ended = failure > 0 and redis.call('HGET', flows, id .. ' r' .. failure)
  if not (readable and record.home) then
    reply[#reply + 1] = id
    reply[#reply + 1] = packed
    reply[#reply + 1] = string.sub(ended or '', 1, 1)
  end
end
return reply
