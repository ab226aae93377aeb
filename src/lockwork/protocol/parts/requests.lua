-- The last few hundred requests of one kind, in a field of a hash.
local function is_known(hash, field, request)
  return string.find(redis.call('HGET', hash, field) or '', request, 1, true)
end

local function remember(hash, field, request)
  redis.call('HSET', hash, field, string.sub(request .. ' ' .. (redis.call('HGET', hash, field) or ''), 1, 5000))
end
