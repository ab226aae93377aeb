-- Reads entries, the earliest first.
-- KEYS: entries
-- ARGV: count, only_due: flag
-- Reply: per entry: id, due us
-- include: now
local latest = only_due and now or '+inf'
local found = redis.call('ZRANGEBYSCORE', entries, '-inf', latest, 'WITHSCORES', 'LIMIT', 0, count)
for at = 2, #found, 2 do found[at] = math.floor(tonumber(found[at])) end
return found
