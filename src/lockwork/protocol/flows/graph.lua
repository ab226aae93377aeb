-- Reads jobs of a flow, with their children and their progress.
-- Flags: no-writes
-- KEYS: flows: hash, jobs: hash, history: hash
-- ARGV: flow, bytes: number, (number, id)
--   bytes: limit per record; a longer record is not read
-- Reply: per job: its children, or ''; the letter of its outcome, or ''; 1 if it waits for others; its record, or the
--   record's beginning from history, or ''
-- Invariants: reads only
-- include: history/row
local function record_in_history(id)
  local _, record = unpack_row(redis.call('HGET', history, id) or '')
  return record or ''
end

-- a viewer may pass any arguments
local JOBS, BYTES = 1000, 4096
bytes = math.min(BYTES, bytes)
local reply = {}
for at = FIRST, math.min(#ARGV, FIRST + JOBS * STRIDE - 1), STRIDE do
  local number, id = ARGV[at], ARGV[at + 1]
  local size = redis.call('HSTRLEN', jobs, id)
  reply[#reply + 1] = redis.call('HGET', flows, flow .. ' k' .. number) or ''
  reply[#reply + 1] = string.sub(redis.call('HGET', flows, flow .. ' r' .. number) or '', 1, 1)
  reply[#reply + 1] = redis.call('HEXISTS', flows, flow .. ' w' .. number)
  reply[#reply + 1] = size == 0 and record_in_history(id) or size <= bytes and redis.call('HGET', jobs, id) or ''
end
return reply
