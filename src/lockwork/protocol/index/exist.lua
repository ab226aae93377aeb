-- Checks which keys exist.
-- Flags: no-writes
-- KEYS: things*
-- Reply: 1 or 0 per key
local found = {}
for at, key in ipairs(things) do found[at] = redis.call('EXISTS', key) end
return found
