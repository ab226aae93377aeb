-- Hand a new job to an idle worker, along with its wake-up. `idle_workers` then has the worker with minus the fence of that offer:
-- it is awake, and if the message was lost, it learns of the job when it asks for others.
-- KEYS: jobs, ready, idle_workers, stats, workers, run
-- include: limits
-- include: seal
local LARGE = 16384 -- bytes; a longer record is fetched

-- Lease the job to the session, if it sleeps and may have it; returns its channel, or nil.
local function offer(session, channel, id, record)
  if not session or at_rest() or rate_jobs or #record > LARGE or not rules[11] then return nil end
  if tonumber(redis.call('ZSCORE', idle_workers, channel) or -1) < 0 then return nil end
  -- waiting jobs are first; and a worker that runs other jobs may be held up by one of them, while others are idle
  if redis.pcall('LLEN', ready) ~= 0 or redis.pcall('HLEN', run) ~= 0 then return nil end
  if tonumber(redis.call('ZSCORE', workers, session) or 0) <= now / 1000 then return nil end
  -- not by what PUBLISH returns: a receiver that this server does not count would have received a job that is not leased
  if not listens(channel) then return nil end
  local fence = math.max(now, tonumber(rules[9] or 0) + 1)
  local token = string.format('1 %.0f ~', fence)
  if not send(channel, sealed(rules[11] .. channel, jobs, token .. ' ' .. id .. ' ' .. record)) then return nil end
  redis.call('ZADD', idle_workers, -fence, channel)
  redis.call('HSET', run, id, token)
  redis.call('HSET', stats, 'fence', string.format('%.0f', fence))
  count_leased(1)
  return channel
end
