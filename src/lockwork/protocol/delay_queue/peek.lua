-- Reads entries, the earliest first.
-- Flags: no-writes
-- KEYS: entries
-- ARGV: count, only_due: flag
-- Reply: per entry: id, due us
-- include: now
local latest = only_due and now or '+inf'
local reply = redis.call('ZRANGEBYSCORE', entries, '-inf', latest, 'WITHSCORES', 'LIMIT', 0, count)
for at = 2, #reply, 2 do reply[at] = math.floor(tonumber(reply[at])) end
return reply
