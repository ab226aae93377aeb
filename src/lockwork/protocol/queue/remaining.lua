-- Counts the unfinished jobs of a queue, and subscribes to the moment when no job runs.
-- KEYS: ready*3, due, group_queue, suspects, void, stats, expiry, flows
-- ARGV: delayed: flag, channel
--   delayed: also count jobs that are not due yet; channel: '' for no message
-- Reply: {waiting, running, 1 if it is paused}
-- Invariants: writes only the list of channels
-- include: now
local paused, running, channels = unpack(redis.call('HMGET', stats, 'paused', 'running', 'drain'))
running, channels = tonumber(running or 0), channels or ''
local waiting = redis.call('ZCARD', group_queue) + redis.call('ZCARD', suspects) - redis.call('SCARD', void)
  + (delayed and redis.call('ZCARD', due) or redis.call('ZCOUNT', due, '-inf', math.floor(now / 1000)))
for _, list in ipairs(ready) do waiting = waiting + redis.call('LLEN', list) end
local blocked = waiting + running == 0 and redis.call('HGET', flows, '#')
if blocked then
  -- a flow update is unfinished: jobs of the flow may run after it
  for _, entry in ipairs(redis.call('ZRANGEBYSCORE', expiry, 0, math.floor(now / 1000), 'LIMIT', 0, 1000)) do
    local flow = string.match(entry, '^flow (.+)$')
    if flow and redis.call('HEXISTS', flows, flow .. ' t') == 1 then waiting = tonumber(blocked) end
  end
end
if channel ~= '' and waiting + running > 0 and not string.find(channels, channel .. ' ', 1, true) then
  -- channels of killed waiters stay listed until no job runs
  if #channels > 4000 then channels = '' end
  redis.call('HSET', stats, 'drain', channels .. channel .. ' ')
end
return {waiting, running, paused and 1 or 0}
