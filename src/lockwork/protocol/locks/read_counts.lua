-- Reads the counts of locks.
-- Flags: no-writes
-- KEYS: counts: hash
-- Reply: {name, amount, ...}
return redis.call('HGETALL', counts)
