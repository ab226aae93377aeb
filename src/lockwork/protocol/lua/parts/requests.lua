-- Requests that the hash KEYS[1] remembers, one field for each kind: the last few hundred.
local function known(field, request)
  return string.find(redis.call('HGET', KEYS[1], field) or '', request, 1, true)
end

local function remember(field, request)
  redis.call('HSET', KEYS[1], field, string.sub(request .. ' ' .. (redis.call('HGET', KEYS[1], field) or ''), 1, 5000))
end
