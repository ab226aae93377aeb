-- Leaves an order for a worker, and wakes it.
-- KEYS: seen: zset, orders: hash
-- ARGV: name, order, channel, silent: number, kept: number
--   silent: ms after which a worker that announces nothing takes no orders; kept: ms that the order stays at least
-- Reply: 1, or 0 if there is no such worker
-- include: now
local last = tonumber(redis.call('ZSCORE', seen, name) or 0)
if last < math.floor(now / 1000) - silent then return 0 end
redis.call('HSET', orders, name, order)
redis.call('PEXPIRE', orders, kept)
redis.pcall('PUBLISH', channel, 'orders')
return 1
