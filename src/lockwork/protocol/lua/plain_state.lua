-- Reads a lock that is a string key.
-- KEYS: key
-- ARGV: none
-- Reply: {1 held or 0, value, ms left or -1}
local value = redis.call('GET', KEYS[1])
return {value and 1 or 0, value or '', redis.call('PTTL', KEYS[1])}
