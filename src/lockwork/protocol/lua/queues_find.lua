-- Finds queues, by one step of a scan.
-- KEYS: none
-- ARGV: cursor, match, step
--   step: how many keys a step looks at
-- Reply: {next cursor, keys of queues' counters}
return redis.call('SCAN', cursor, 'MATCH', match, 'COUNT', step)
