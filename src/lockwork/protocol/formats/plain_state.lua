-- Reads a lock that is a string key.
-- Flags: no-writes
-- KEYS: key
-- Reply: {1 held or 0, value, ms left or -1}
local value = redis.call('GET', key)
return {value and 1 or 0, value or '', redis.call('PTTL', key)}
