-- Reads a value and the fence of its write.
-- Flags: no-writes
-- KEYS: register
-- Reply: {value, fence}, or {} before the first write
local value, fence = unpack(redis.call('HMGET', register, 'v', 'f'))
if not value then return {} end
return {value, tonumber(fence)}
