-- Counts the entries.
-- KEYS: entries
-- Reply: how many there are, due or not
return redis.call('ZCARD', entries)
