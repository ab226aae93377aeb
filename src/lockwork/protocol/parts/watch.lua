-- Add a channel to notify about a job or a flow. The list is limited: waiters that lost their entry call again every
-- few seconds.
local CHANNELS = 16384 -- bytes; some hundreds of processes
local function add_watcher(watch, id, channel)
  local channels = redis.call('HGET', watch, id) or ''
  if not string.find(channels, channel, 1, true) then
    if #channels > CHANNELS then channels = string.match(string.sub(channels, -CHANNELS / 2), '%s(.*)$') or '' end
    redis.call('HSET', watch, id, channels .. channel .. ' ')
  end
  redis.call('PEXPIRE', watch, 86400000)
end
