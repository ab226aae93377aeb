-- The next looks of created schedules.
-- KEYS: schedules, seen, created, looks: zset, created_names: zset
-- include: schedules/schedule
local PAUSED_LOOK = 9007199254740991

local function delete(name)
  redis.call('HDEL', created, 'd' .. name, 'r' .. name, 's' .. name)
  redis.call('ZREM', looks, name)
  redis.call('ZREM', created_names, name)
end
