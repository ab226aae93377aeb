-- Writes what a worker or an app announces, and tells a worker the order that waits for it.
-- KEYS: facts: hash, seen: zset, orders: hash
-- ARGV: name, record, kept: number, most: number, handled
--   record: empty to take the announcement back; kept: ms that one stays after it was last written; most: announcements that are kept
--   handled: the order that the worker has carried out, or empty
-- Reply: {now ms, order or ''}
-- Invariants: seen has the names of facts; the oldest go first
-- include: now
local today = math.floor(now / 1000)
if record == '' then
  redis.call('HDEL', facts, name)
  redis.call('ZREM', seen, name)
  redis.call('HDEL', orders, name)
  return {today, ''}
end

redis.call('HSET', facts, name, record)
redis.call('ZADD', seen, today, name)
local order = redis.call('HGET', orders, name)
if order and order == handled then
  redis.call('HDEL', orders, name)
  order = false
end

-- at most 100 in a call
local old = redis.call('ZRANGEBYSCORE', seen, '-inf', today - kept, 'LIMIT', 0, 100)
local over = redis.call('ZCARD', seen) - #old - most
if over > 0 then old = redis.call('ZRANGE', seen, 0, math.min(99, #old + over - 1)) end
if #old > 0 then
  redis.call('HDEL', facts, unpack(old))
  redis.call('HDEL', orders, unpack(old))
  redis.call('ZREM', seen, unpack(old))
end
for _, key in ipairs({facts, seen, orders}) do redis.call('PEXPIRE', key, kept + 60000) end
return {today, order or ''}
