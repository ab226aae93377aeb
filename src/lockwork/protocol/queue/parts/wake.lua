-- Wake up to `count` idle workers, if the limits allow a lease. Return the channel of the last. Channels without a
-- receiver do not count, up to 500. A score below 0 is an offer (queue/parts/offer.lua): such a worker is awake.
-- KEYS: jobs, idle_workers
-- include: queue/limits
local function wake(count)
  if is_blocked() then return nil end
  -- a worker with a scheduled time would come too early for the rate; others wake up in case that worker was killed
  local last = queue.rate_jobs and select(3, rate_allows()) and now or '+inf'
  local last_channel, unreachable = nil, 0
  while count > 0 and unreachable < 500 do
    local channel = unpack(redis.call('ZRANGEBYSCORE', idle_workers, 0, last, 'LIMIT', 0, 1))
    if not channel then break end
    redis.call('ZREM', idle_workers, channel)
    local received = notify(channel, jobs)
    if received > 0 then last_channel = channel else unreachable = unreachable + 1 end
    count = count - received
  end
  return last_channel
end
