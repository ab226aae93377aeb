-- Finds keys by a pattern, by one step of a scan of the whole server.
-- KEYS: none
-- ARGV: cursor, match, step
--   step: keys per scan step
-- Reply: {next cursor, keys}
return redis.call('SCAN', cursor, 'MATCH', match, 'COUNT', step)
