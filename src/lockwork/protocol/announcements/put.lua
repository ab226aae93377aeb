-- Writes the announcement of a worker or an app, and returns a waiting order to a worker.
-- KEYS: facts: hash, seen: zset, orders: hash
-- ARGV: name, record, kept: number, most: number, handled, family?, replaced?: number
--   record: empty to delete the announcement; kept: lifetime of an announcement after its last write (ms); most: limit
--     of announcements
--   handled: the order that the worker has executed, or empty
--   family: prefix of the names that this announcement replaces; they stay for `replaced` ms after their last write
-- Reply: {now ms, order or ''}
-- Invariants: seen has the names of facts; the oldest are deleted first
-- include: now
local now_ms = math.floor(now / 1000)
if record == '' then
  redis.call('HDEL', facts, name)
  redis.call('ZREM', seen, name)
  redis.call('HDEL', orders, name)
  return {now_ms, ''}
end

redis.call('HSET', facts, name, record)
redis.call('ZADD', seen, now_ms, name)
local order = redis.call('HGET', orders, name)
if order and order == handled then
  redis.call('HDEL', orders, name)
  order = false
end

-- at most 100 in a call
local old = redis.call('ZRANGEBYSCORE', seen, '-inf', now_ms - kept, 'LIMIT', 0, 100)
local over = redis.call('ZCARD', seen) - #old - most
if over > 0 then old = redis.call('ZRANGE', seen, 0, math.min(99, #old + over - 1)) end
for _, other in ipairs(family and redis.call('ZRANGEBYSCORE', seen, '-inf', now_ms - replaced, 'LIMIT', 0, most) or {}) do
  if #old < 1000 and string.sub(other, 1, #family) == family then old[#old + 1] = other end
end
if #old > 0 then
  redis.call('HDEL', facts, unpack(old))
  redis.call('HDEL', orders, unpack(old))
  redis.call('ZREM', seen, unpack(old))
end
for _, key in ipairs({facts, seen, orders}) do redis.call('PEXPIRE', key, kept + 60000) end
return {now_ms, order or ''}
