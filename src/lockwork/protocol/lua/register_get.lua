-- Reads a value and the fence under which it was written.
-- KEYS: register
-- Reply: {value, fence}, or {} when nothing was ever written
local held = redis.call('HMGET', register, 'v', 'f')
if not held[1] then return {} end
return {held[1], tonumber(held[2])}
