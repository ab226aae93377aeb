-- Wake up to `count` idle workers, if they may lease anything; a channel that nobody hears does not count.
local function wake(count)
  if at_rest() then return end
  for _ = 1, 100 do
    if count <= 0 then return end
    local channel = redis.call('ZPOPMIN', idle)[1]
    if not channel then return end
    count = count - redis.call('PUBLISH', channel, jobs)
  end
end
