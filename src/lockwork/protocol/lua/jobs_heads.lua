-- Reads the first jobs of each ready list, and how long the lease that ends first lasts.
-- KEYS: ready:0, ready:1, ready:2, workers, withdrawn, stats
-- ARGV: how many places of each list; those that are void are left out
-- Reply: {now ms, ms left of the lease that ends first (negative: overdue) or '' without workers, ids of each list}
-- include: now
local today = math.floor(now / 1000)
local first = redis.call('ZRANGEBYSCORE', KEYS[4], '(0', '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2] -- at 0: is being recovered
local reply = {today, first and string.format('%.0f', first - today - tonumber(redis.call('HGET', KEYS[6], 'ahead') or 0)) or ''} -- as jobs_beat counts
local void = redis.call('EXISTS', KEYS[5]) == 1
for level = 1, 3 do
  local ids = {}
  for _, id in ipairs(redis.call('LRANGE', KEYS[level], 0, ARGV[1] - 1)) do
    if not void or redis.call('SISMEMBER', KEYS[5], id) == 0 then ids[#ids + 1] = id end
  end
  reply[#reply + 1] = ids
end
return reply
