-- Reads the holder of the lock and how many wait.
-- KEYS: lock
-- ARGV: most: number
--   most: how many places to look at, 0: do not count
-- Reply: {owner or '', its request, fence, ms left, waiters}: live ones; those beyond the places that are looked at count as live
-- include: now
local held = redis.call('HMGET', lock, 'o', 'r', 'f', 'd', 'h', 't', 'm', 'b', 'l')
local fence, deadline = tonumber(held[3] or 0), tonumber(held[4] or 0)
local head, tail = tonumber(held[8] or held[5] or 1), tonumber(held[6] or 0)
local seen, waiters = 0, 0
local last = math.min(tail, head + most - 1)
for from = head, last, 100 do
  local names = {}
  for ticket = from, math.min(last, from + 99) do names[#names + 1] = 'w' .. ticket end
  for _, packed in ipairs(redis.call('HMGET', lock, unpack(names))) do
    if packed then
      seen = seen + 1
      if cmsgpack.unpack(packed)[1] > now then waiters = waiters + 1 end
    end
  end
end
if most > 0 and last < tail then waiters = waiters + math.max(0, tonumber(held[7] or tail - head + 1) - seen) end
if deadline <= now then return {'', '', fence, 0, waiters} end
local left = math.min(tonumber(held[9] or math.huge), math.ceil((deadline - now) / 1000)) -- up: what has a moment left is held still
return {held[1] or '', held[2] or '', fence, left, waiters}
