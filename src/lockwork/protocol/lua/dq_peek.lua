-- Reads entries, the earliest first.
-- KEYS: entries
-- ARGV: count, 1 for those that are due only
-- Reply: per entry: id, due us
-- include: now
local latest = ARGV[2] == '1' and now or '+inf'
local found = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', latest, 'WITHSCORES', 'LIMIT', 0, ARGV[1])
for at = 2, #found, 2 do found[at] = math.floor(tonumber(found[at])) end
return found
