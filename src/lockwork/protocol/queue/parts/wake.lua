-- Wake up to `count` idle workers, if the limits allow a lease. Return the channel of the last. Channels without a
-- receiver do not count, up to 500. A score below 0 is an offer (queue/parts/offer.lua): such a worker is awake.
-- KEYS: jobs, idle_workers
-- include: queue/limits
local function wake(count)
  if at_rest() then return nil end
  -- a worker with a scheduled time would come too early for the rate; others wake up in case that worker was killed
  local last = rate_jobs and select(3, rate_allows()) and now or '+inf'
  local told, unheard = nil, 0
  while count > 0 and unheard < 500 do
    local channel = redis.call('ZRANGEBYSCORE', idle_workers, 0, last, 'LIMIT', 0, 1)[1]
    if not channel then break end
    redis.call('ZREM', idle_workers, channel)
    local heard = notify(channel, jobs)
    if heard > 0 then told = channel else unheard = unheard + 1 end
    count = count - heard
  end
  return told
end
