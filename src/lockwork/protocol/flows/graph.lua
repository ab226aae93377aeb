-- Reads jobs of a flow, with their children and their progress.
-- Flags: no-writes
-- KEYS: flows: hash, jobs: hash, history: hash, results*2
-- ARGV: flow, bytes: number, (number, id)
--   bytes: limit per record; a longer record is not read
-- Reply: per job: its children, or '' (negative: a job that runs only after its failure); the letter of its outcome, or
--   ''; 1 if it waits for others; its record, or the record's beginning from history, or ''
--   If the flow has jobs in other queues, last: number, queue, number, queue ... of these
-- Invariants: reads only
-- include: history/row
-- include: queue/results
-- Return the record of an ended job, from history, or from its outcome if it never ran.
local function ended_record(id, bytes)
  local _, record = unpack_row(redis.call('HGET', history, id) or '')
  return record or string.sub(string.match(find_result(id) or '', '^[cnx]%d+[^;]*;(.*)$') or '', 1, bytes)
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
  reply[#reply + 1] = size == 0 and ended_record(id, bytes) or size <= bytes and redis.call('HGET', jobs, id) or ''
end
local fine, flow_record = pcall(cmsgpack.unpack, redis.call('HGET', flows, flow) or '')
if fine and type(flow_record) == 'table' and flow_record.parts then
  local queues = {}
  for at = FIRST, math.min(#ARGV, FIRST + JOBS * STRIDE - 1), STRIDE do
    local name = redis.call('HGET', flows, flow .. ' q' .. ARGV[at])
    if name then
      queues[#queues + 1] = ARGV[at]
      queues[#queues + 1] = name
    end
  end
  reply[#reply + 1] = queues
end
return reply
