-- Suspects: jobs that ran together in a process that died, so each may have caused the crash. They wait apart from the
-- ready jobs, and isolation processes run them one at a time. A suspect keeps its key and its unique name, but no place
-- in its group. The token of such a delivery has a request that begins with `!`.
--   suspects: ids by the fence of the delivery that made them suspects (0: it was returned, so it comes first)
--   stats: suspects: exists while the queue has suspects; the time (us) until which other jobs leave the queue's limits
--     to suspects (queue/parts/limits.lua)
-- KEYS: stats, suspects: zset
-- include: queue/limits

-- Make a job that is in no place a suspect, for the first time or again.
local function suspect(id, fence)
  redis.call('ZADD', suspects, fence, id)
  if queue.suspects_until then return end
  queue.suspects_until = 0
  redis.call('HSET', stats, 'suspects', 0)
end

-- Clear the suspicion of a job; return whether it was a suspect.
local function clear_suspect(id)
  if not queue.suspects_until or redis.call('ZREM', suspects, id) == 0 then return false end
  if redis.call('EXISTS', suspects) == 0 then
    queue.suspects_until = nil
    redis.call('HDEL', stats, 'suspects')
  end
  return true
end

local function is_suspect(id)
  return queue.suspects_until and redis.call('ZSCORE', suspects, id) ~= false
end

-- Whether the token is of a delivery to an isolation process.
local function ran_alone(token)
  return string.find(token, ' !%S*$') ~= nil
end
