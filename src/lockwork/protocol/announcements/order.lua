-- Stores an order for a worker, and wakes the worker.
-- KEYS: seen: zset, orders: hash
-- ARGV: name, order, channel, silent: number, kept: number
--   silent: a worker without an announcement for this time (ms) takes no orders; kept: minimum lifetime of the order
--     (ms)
-- Reply: 1, or 0 if the worker does not exist
-- include: now
local last = tonumber(redis.call('ZSCORE', seen, name) or 0)
if last < math.floor(now / 1000) - silent then return 0 end
redis.call('HSET', orders, name, order)
redis.call('PEXPIRE', orders, kept)
redis.pcall('PUBLISH', channel, 'orders')
return 1
