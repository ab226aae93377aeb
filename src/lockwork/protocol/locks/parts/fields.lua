-- The fields of a lock's hash that a request for it needs.
-- needs: lock
local function read_lock(request)
  return redis.call('HMGET', lock, 'o', 'r', 'f', 'd', 'u', 'i' .. request, 'h', 't', 'm', 'b', 's', 'l')
end
