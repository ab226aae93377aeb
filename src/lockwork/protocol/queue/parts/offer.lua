-- Send a new job to an idle worker, together with its wake-up. The worker's score in `idle_workers` is then minus the
-- fence of the offer: the worker is awake. If the message was lost, the worker receives the job with its next fetch.
-- KEYS: jobs, ready, idle_workers, stats, workers, run
-- include: queue/limits
-- include: seal
-- include: metrics/task_name
local LARGE = 16384 -- bytes; the worker fetches a longer record

-- Lease the job to the session, if its worker is idle and the limits allow it. Return its channel, or nil.
local function offer(session, channel, id, record)
  if not session or is_blocked() or queue.rate_jobs or #record > LARGE or not queue.seal then return nil end
  -- a task with limits starts no job without them
  if queue.limited and string.find(queue.limited, '\n' .. task_of(record) .. ' ', 1, true) then return nil end
  if tonumber(redis.call('ZSCORE', idle_workers, channel) or -1) < 0 then return nil end
  -- waiting jobs come first; and a job that the worker already runs may block it, while other workers are idle
  if redis.pcall('LLEN', ready) ~= 0 or redis.pcall('HLEN', run) ~= 0 then return nil end
  if tonumber(redis.call('ZSCORE', workers, session) or 0) <= now / 1000 then return nil end
  -- PUBLISH counts only receivers of this server: another receiver would get a job that is then not leased
  if not has_subscriber(channel) then return nil end
  local fence = next_fence()
  local token = string.format('1 %.0f ~', fence)
  if not send(channel, sealed(queue.seal .. channel, jobs, token .. ' ' .. id .. ' ' .. record)) then return nil end
  redis.call('ZADD', idle_workers, -fence, channel)
  redis.call('HSET', run, id, token)
  redis.call('HSET', stats, 'fence', string.format('%.0f', fence))
  count_leased(1)
  return channel
end
