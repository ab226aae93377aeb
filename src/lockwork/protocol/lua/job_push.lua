-- Enqueues one plain job that may run at once: the most frequent call, so it touches what it needs and no more.
-- KEYS: jobs, the ready list of its level, idle, stats, dead
-- ARGV: id, record
-- Reply: 1 if it is new, else 0; or {waiting, size} when the queue has no room for it
-- Invariants: as jobs_push; after a lost reply jobs_push is what can be sent again
local jobs, ready, idle, stats, dead = unpack(KEYS)
local asleep = redis.call('ZCARD', idle)
local size = tonumber(redis.call('HGET', stats, 'size') or nil)
if size then
  local waiting = redis.call('HLEN', jobs) - (redis.call('HGET', stats, 'running') or 0) - redis.call('ZCARD', dead)
  if waiting >= size and redis.call('HEXISTS', jobs, ARGV[1]) == 0 then return {waiting, size} end
end
if redis.call('HSETNX', jobs, ARGV[1], ARGV[2]) == 0 then return 0 end
local pushed = redis.pcall('RPUSH', ready, ARGV[1])
if type(pushed) == 'table' then
  redis.call('HDEL', jobs, ARGV[1])
  return pushed
end
redis.call('HINCRBY', stats, 'enqueued', 1)
if asleep == 0 then return 1 end
-- include: limits
-- include: wake
wake(1)
return 1
