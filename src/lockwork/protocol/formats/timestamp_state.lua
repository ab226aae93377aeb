-- Reads a lock whose value is its end time.
-- Flags: no-writes
-- KEYS: key
-- Reply: {1 there is a value or 0, value, ms until its time or 0, 1 it has an expiry or 0}
-- include: now
-- include: formats/endtime
if redis.call('EXISTS', key) == 0 then return {0, '', 0, 0} end
local value, ends = read(key)
return {1, value, math.max(0, math.ceil(((ends or 0) - now) / 1000)), redis.call('PTTL', key) >= 0 and 1 or 0}
