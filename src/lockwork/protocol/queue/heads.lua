-- Reads the first jobs of each ready list, the age of the oldest due job, and the time until the next lease ends.
-- Flags: no-writes
-- KEYS: ready*3, workers, void, stats, suspects, due, group_queue
-- ARGV: places: number
--   places: number of entries per list, without void entries
-- Reply: {now ms, ms until the next lease ends (negative: overdue) or '' without workers, age in ms of the oldest due
--   job that is not yet moved or -1, length of group_queue, ids per list, ids of suspects}; an id is '' after too many
--   void entries
-- include: now
local MOST_VOID = 1000 -- limit per list of entries to read
local now_ms = math.floor(now / 1000)
local _, deadline = unpack(redis.call('ZRANGEBYSCORE', workers, 1, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)) -- below 1: in recovery
local _, due_at = unpack(redis.call('ZRANGE', due, 0, 0, 'WITHSCORES'))
due_at = tonumber(due_at or now_ms + 1)
local reply = {
  -- leases use the clock of heartbeat.lua
  now_ms, deadline and string.format('%.0f', deadline - now_ms - tonumber(redis.call('HGET', stats, 'ahead') or 0)) or '',
  due_at <= now_ms and now_ms - due_at or -1, redis.call('ZCARD', group_queue),
}
local any_void = redis.call('EXISTS', void) == 1
for _, list in ipairs(ready) do
  local ids, listed = {}, redis.call('LRANGE', list, 0, places - 1)
  if any_void and #listed > 0 then listed = redis.call('LRANGE', list, 0, MOST_VOID - 1) end
  for _, id in ipairs(listed) do
    if #ids == places then break end
    if not any_void or redis.call('SISMEMBER', void, id) == 0 then ids[#ids + 1] = id end
  end
  if #ids == 0 and #listed == MOST_VOID then ids = {''} end
  reply[#reply + 1] = ids
end
reply[#reply + 1] = redis.call('ZRANGE', suspects, 0, places - 1)
return reply
