-- Reads the counts of locks.
-- KEYS: counts: hash
-- Reply: {name, amount, ...}
return redis.call('HGETALL', counts)
