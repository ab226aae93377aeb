-- Reads who holds the lock and how many wait.
-- KEYS: lock
-- ARGV: none
-- Reply: {owner or '', its request, fence, ms left, live waiters}
-- include: now
local fields = redis.call('HGETALL', KEYS[1])
local owner, request, fence, deadline, waiters, length = '', '', 0, 0, 0, math.huge
for index = 1, #fields, 2 do
  local name, value = fields[index], fields[index + 1]
  if name == 'o' then owner = value
  elseif name == 'r' then request = value
  elseif name == 'f' then fence = tonumber(value)
  elseif name == 'd' then deadline = tonumber(value)
  elseif name == 'l' then length = tonumber(value)
  elseif string.sub(name, 1, 1) == 'w' and cmsgpack.unpack(value)[1] > now then waiters = waiters + 1
  end
end
if deadline <= now then return {'', '', fence, 0, waiters} end
return {owner, request, fence, math.min(length, math.ceil((deadline - now) / 1000)), waiters} -- up: what has a moment left is held still
