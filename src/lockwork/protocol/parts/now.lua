-- now: the server's clock in us, the only clock that scripts use.
local seconds, microseconds = unpack(redis.call('TIME'))
local now = seconds * 1000000 + microseconds
