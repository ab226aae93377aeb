-- Reads some jobs of a flow: what waits for each, and how far each is.
-- KEYS: flows: hash, jobs: hash, history: hash
-- ARGV: flow, bytes: number, (number, id)
--   bytes: of a record; of a longer one, nothing is read
-- Reply: per job: its children, or ''; the letter of its end, or ''; 1 if it waits for others; its record, or the beginning that
--   history kept of it, or ''
-- Invariants: nothing is written
local function kept(id)
  local fine, fields = pcall(cmsgpack.unpack, redis.call('HGET', history, id) or '')
  return fine and type(fields) == 'table' and type(fields[5]) == 'string' and fields[5] or ''
end

local reply = {}
for at = FIRST, #ARGV, STRIDE do
  local number, id = ARGV[at], ARGV[at + 1]
  local size = redis.call('HSTRLEN', jobs, id)
  reply[#reply + 1] = redis.call('HGET', flows, flow .. ' k' .. number) or ''
  reply[#reply + 1] = string.sub(redis.call('HGET', flows, flow .. ' r' .. number) or '', 1, 1)
  reply[#reply + 1] = redis.call('HEXISTS', flows, flow .. ' w' .. number)
  reply[#reply + 1] = size == 0 and kept(id) or size <= bytes and redis.call('HGET', jobs, id) or ''
end
return reply
