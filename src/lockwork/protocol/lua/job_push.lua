-- Enqueues one plain job that may run at once: the most frequent call, so it touches what it needs and no more.
-- KEYS: jobs, the ready list of its level, idle, stats
-- ARGV: id, record
-- Reply: 1 if it is new, else 0; -1 if the queue has a limit of size: nothing was done, and jobs_push knows more of that
-- Invariants: as jobs_push; after a lost reply jobs_push is what can be sent again
local jobs, ready, idle, stats = unpack(KEYS)
local asleep = redis.call('ZCARD', idle)
if redis.call('HGET', stats, 'size') then return -1 end
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
