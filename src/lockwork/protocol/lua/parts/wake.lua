-- Wake up to `count` idle workers, if they may lease anything, and return the channel of the last; channels without a receiver do not
-- count, up to some hundreds. A score below 0 is an offer (offer.lua): such a worker is awake.
-- KEYS: jobs, idle_workers
-- include: limits
local function wake(count)
  if at_rest() then return nil end
  -- while the rate is used up, a worker with a time of its own would come too early; the others are woken in case it is killed
  local last = rate_jobs and select(3, rate_allows()) and now or '+inf'
  local told, unheard = nil, 0
  while count > 0 and unheard < 500 do
    local channel = redis.call('ZRANGEBYSCORE', idle_workers, 0, last, 'LIMIT', 0, 1)[1]
    if not channel then break end
    redis.call('ZREM', idle_workers, channel)
    local heard = tell(channel, jobs)
    if heard > 0 then told = channel else unheard = unheard + 1 end
    count = count - heard
  end
  return told
end
