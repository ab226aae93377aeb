-- Reads the first jobs of each ready list, and how long the lease that ends first lasts.
-- KEYS: ready:0, ready:1, ready:2, workers
-- ARGV: how many jobs of each list
-- Reply: {now ms, ms left of the lease that ends first (negative: overdue) or '' without workers, ids of each list}
-- include: now
local today = math.floor(now / 1000)
local first = redis.call('ZRANGEBYSCORE', KEYS[4], '(0', '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2] -- at 0: is being recovered
local reply = {today, first and string.format('%.0f', first - today) or ''}
for level = 1, 3 do reply[#reply + 1] = redis.call('LRANGE', KEYS[level], 0, ARGV[1] - 1) end
return reply
