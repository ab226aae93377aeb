-- Reads the first jobs of each ready list, and how long the lease that ends first lasts.
-- KEYS: ready*3, workers, withdrawn, stats
-- ARGV: places: number
--   places: how many of each list; those that are void are left out
-- Reply: {now ms, ms left of the lease that ends first (negative: overdue) or '' without workers, ids of each list}
-- include: now
local today = math.floor(now / 1000)
local first = redis.call('ZRANGEBYSCORE', workers, '(0', '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2] -- at 0: is being recovered
local reply = {today, first and string.format('%.0f', first - today - tonumber(redis.call('HGET', stats, 'ahead') or 0)) or ''} -- as jobs_beat counts
local void = redis.call('EXISTS', withdrawn) == 1
for _, list in ipairs(ready) do
  local ids = {}
  for _, id in ipairs(redis.call('LRANGE', list, 0, places - 1)) do
    if not void or redis.call('SISMEMBER', withdrawn, id) == 0 then ids[#ids + 1] = id end
  end
  reply[#reply + 1] = ids
end
return reply
