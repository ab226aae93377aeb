-- Reads some of the jobs in a worker session's hands.
-- KEYS: run
-- ARGV: how many, about
-- Reply: {id, token, ...}
return redis.call('HSCAN', KEYS[1], 0, 'COUNT', ARGV[1])[2]
