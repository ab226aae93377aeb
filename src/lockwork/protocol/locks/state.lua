-- Reads the holder of the lock, and counts its waiters.
-- Flags: no-writes
-- KEYS: lock
-- ARGV: most: number
--   most: maximum number of places to read; 0: do not count
-- Reply: {owner or '', its request, fence, ms left, waiters}: live ones; places that are not read count as live
-- include: now
-- include: waiter
local owner, request, fence, deadline, head, tail, count, first_skipped, lease =
  unpack(redis.call('HMGET', lock, 'o', 'r', 'f', 'd', 'h', 't', 'm', 'b', 'l'))
fence, deadline = tonumber(fence or 0), tonumber(deadline or 0)
head, tail = tonumber(first_skipped or head or 1), tonumber(tail or 0)
local places, waiters = 0, 0
local last = math.min(tail, head + most - 1)
for from = head, last, 100 do
  local names = {}
  for ticket = from, math.min(last, from + 99) do names[#names + 1] = 'w' .. ticket end
  for _, packed in ipairs(redis.call('HMGET', lock, unpack(names))) do
    if packed then
      places = places + 1
      if ends_at_us(packed) > now then waiters = waiters + 1 end
    end
  end
end
if most > 0 and last < tail then waiters = waiters + math.max(0, tonumber(count or tail - head + 1) - places) end
if deadline <= now then return {'', '', fence, 0, waiters} end
local left = math.min(tonumber(lease or math.huge), math.ceil((deadline - now) / 1000)) -- rounded up: a moment left is still held
return {owner or '', request or '', fence, left, waiters}
