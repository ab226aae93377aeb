-- The rules of a queue.
-- KEYS: stats

-- Return paused since (ms), rate, concurrency, size; each may be ''.
local function read_rules()
  local paused, rate, concurrency, size = unpack(redis.call('HMGET', stats, 'paused', 'rate', 'concurrency', 'size'))
  return paused or '', rate or '', concurrency or '', size or ''
end
