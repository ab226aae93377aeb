-- Counts the entries.
-- Flags: no-writes
-- KEYS: entries
-- Reply: number of entries, due or not
return redis.call('ZCARD', entries)
