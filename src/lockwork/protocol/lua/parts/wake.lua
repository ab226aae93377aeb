-- Wake up to `count` idle workers, if they may lease anything, and return the channel of the last; one that nobody hears does not
-- count. A score below 0 is an offer (offer.lua): such a worker is awake.
local function wake(count)
  if at_rest() then return nil end
  local told
  for _ = 1, 100 do
    if count <= 0 then break end
    local channel = redis.call('ZRANGEBYSCORE', idle, 0, '+inf', 'LIMIT', 0, 1)[1]
    if not channel then break end
    redis.call('ZREM', idle, channel)
    local heard = publish(channel, jobs)
    if heard > 0 then told = channel end
    count = count - heard
  end
  return told
end
