-- Reads the created schedules that a worker must look at now.
-- KEYS: <schedules/schedule>, looks: zset
-- ARGV: skip: number, most: number
--   skip: the first ones, which the caller cannot read
-- Reply: {now ms, number of created schedules, the next look after now (ms) or -1, then per schedule: name, digest,
--   cursor, definition}
-- include: now
-- include: schedules/schedule
local now_ms = math.floor(now / 1000)
local later = redis.call('ZRANGEBYSCORE', looks, '(' .. now_ms, '(9007199254740991', 'WITHSCORES', 'LIMIT', 0, 1)
local reply = {now_ms, redis.call('ZCARD', looks), tonumber(later[2] or -1)}
for _, name in ipairs(redis.call('ZRANGEBYSCORE', looks, '-inf', now_ms, 'LIMIT', skip, most)) do
  local known = load(created, name)
  reply[#reply + 1] = name
  reply[#reply + 1] = known and known[DIGEST] or ''
  reply[#reply + 1] = known and known[CURSOR] or 0
  reply[#reply + 1] = redis.call('HGET', created, 'd' .. name) or ''
end
return reply
