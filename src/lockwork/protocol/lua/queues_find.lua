-- Finds queues, by one step of a scan.
-- KEYS: none
-- ARGV: cursor, match, how many keys a step looks at
-- Reply: {next cursor, keys of queues' counters}
return redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3])
