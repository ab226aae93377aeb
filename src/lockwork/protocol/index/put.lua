-- Adds names to an index, with the current time, and finds old names whose keys may not exist any more.
-- KEYS: names: zset
-- ARGV: most: number, aged: number, (name)
--   most: number of the newest names to keep, 0: all; aged: check names of this age (ms)
-- Reply: {now ms, name, when it was added ms, ...}: the oldest names to check, a few more than were added
-- include: now
local now_ms, many = math.floor(now / 1000), 20 + #ARGV
for at = FIRST, #ARGV do redis.call('ZADD', names, now_ms, ARGV[at]) end
local over = most > 0 and redis.call('ZCARD', names) - most or 0
if over > 0 then redis.call('ZREM', names, unpack(redis.call('ZRANGE', names, 0, math.min(many, over) - 1))) end
local reply = {now_ms}
local check = redis.call('ZRANGEBYSCORE', names, '-inf', now_ms - aged, 'WITHSCORES', 'LIMIT', 0, many)
for at = 1, #check, 2 do
  reply[#reply + 1] = check[at]
  reply[#reply + 1] = tonumber(check[at + 1])
end
return reply
