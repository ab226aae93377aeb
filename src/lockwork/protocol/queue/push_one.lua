-- Enqueues one plain job that may run at once. This is the most frequent call, so it reads and writes only the
-- necessary keys.
-- KEYS: jobs, idle_workers, stats, dead, workers; ready, run?
-- ARGV: id, record, session?, channel?
--   ready: the list of the job's level; run, session, channel: of a worker that is probably idle
-- Indexed: stats
-- Reply: 0 if the id is known; {waiting, size} if the queue is full; else 1, or the channel of a worker that is
--   probably idle at the next call
-- Invariants: as queue/push; after a lost reply, the caller retries with queue/push
local asleep = redis.call('ZCOUNT', idle_workers, 0, '+inf')
local size = tonumber(redis.call('HGET', stats, 'size') or nil)
if size then
  local waiting = redis.call('HLEN', jobs) - (redis.call('HGET', stats, 'running') or 0) - redis.call('ZCARD', dead)
  if waiting >= size and redis.call('HEXISTS', jobs, id) == 0 then return {waiting, size} end
end
if redis.call('HSETNX', jobs, id, record) == 0 then return 0 end
-- include: queue/heavy
if #record > HEAVY then redis.call('HSET', stats, 'heavy', 1) end
local function add_to_ready_list()
  local pushed = redis.pcall('RPUSH', ready, id)
  if type(pushed) == 'table' then
    redis.call('HDEL', jobs, id)
    return pushed
  end
  redis.call('HINCRBY', stats, 'enqueued', 1)
end
if asleep == 0 then return add_to_ready_list() or 1 end
-- include: now
-- include: queue/limits
-- include: queue/wake
-- include: queue/offer
local taker = offer(session, channel, id, record)
if taker then
  redis.call('HINCRBY', stats, 'enqueued', 1)
else
  local problem = add_to_ready_list()
  if problem then return problem end
  taker = wake(1)
end
return unpack(redis.call('ZRANGEBYSCORE', idle_workers, 0, '+inf', 'LIMIT', 0, 1)) or taker or 1
