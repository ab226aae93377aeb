-- Changes of created schedules, and the messages about them.
-- KEYS: schedules, seen, created, looks, created_names, workers: zset, stats
-- needs: channels
-- include: publish
-- include: schedules/looks

-- Let workers look at a schedule now. Each worker process receives a message, unless another schedule makes it look.
local function look_now(name, now_ms)
  local looking = redis.call('ZCOUNT', looks, now_ms - 1000, now_ms) > 0
  redis.call('ZADD', looks, now_ms, name)
  redis.call('HINCRBY', stats, 'schedules', 1)
  if looking then return end
  for _, session in ipairs(redis.call('ZRANGEBYSCORE', workers, now_ms, '+inf', 'LIMIT', 0, 1000)) do
    publish(channels .. session, schedules .. ' changed')
  end
end
