-- Counts parked jobs: workers returned them because they do not know the task, or have another version of it.
-- Flags: no-writes
-- KEYS: parked, parked_since
-- ARGV: most: number
--   most: labels
-- Reply: {label, jobs, the entry in parked_since of the oldest, ...}; a label is `TASK VERSIONS`
--   (queue/parts/parked.lua)
-- Invariants: reads only
local reply, from = {}, '-'
for _ = 1, most do
  local entry = unpack(redis.call('ZRANGEBYLEX', parked, from, '+', 'LIMIT', 0, 1))
  local label, id = string.match(entry or '', '^(%S+ %S*)\n(.*)$')
  if not label then break end
  local behind = '(' .. label .. '\v'
  local next_entry = unpack(redis.call('ZRANGEBYLEX', parked, behind, '+', 'LIMIT', 0, 1))
  local ends = next_entry and redis.call('ZRANK', parked, next_entry) or redis.call('ZCARD', parked)
  reply[#reply + 1] = label
  reply[#reply + 1] = ends - redis.call('ZRANK', parked, entry)
  reply[#reply + 1] = redis.call('HGET', parked_since, id) or ''
  from = behind
end
return reply
