-- Reads announcements, oldest write first.
-- Flags: no-writes
-- KEYS: facts: hash, seen: zset
-- ARGV: skip: number, most: number
-- Reply: {now ms, name, when it was written ms, record, ...}
-- include: now
local found = redis.call('ZRANGE', seen, skip, skip + most - 1, 'WITHSCORES')
local reply = {math.floor(now / 1000)}
for at = 1, #found, 2 do
  reply[#reply + 1] = found[at]
  reply[#reply + 1] = tonumber(found[at + 1])
  reply[#reply + 1] = redis.call('HGET', facts, found[at]) or ''
end
return reply
