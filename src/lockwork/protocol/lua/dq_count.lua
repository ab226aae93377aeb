-- Counts the entries.
-- KEYS: entries
-- ARGV: none
-- Reply: how many there are, due or not
return redis.call('ZCARD', KEYS[1])
