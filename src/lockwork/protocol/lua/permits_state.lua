-- Reads how many units are in use, and their holders.
-- KEYS: permits
-- ARGV: most_holders: number, most_waiters: number
--   how many to name at most: 1,000 of either
-- Reply: {capacity, units in use, holders, waiters, {owner, request, fence, units, ms left, ms held} of some holders,
--   {owner, request, units, ms waited} of the first waiters, fence of the newest grant}; all of the live ones only, but of more than 1,000
--   holders or places those that are not looked at count as live
-- include: now
-- include: permits
local MOST = 1000
local dead, places, looked = {}, {1}, 0
-- in a heap those whose time may have come lie together at the top
while #places > 0 and looked < MOST do
  local at = table.remove(places)
  local entry = at <= count and redis.call('HGET', permits, 'p' .. at)
  local key, id = parsed(entry or '')
  if key and key <= now then
    local held = holder(id)
    if held[1] <= now then dead[id] = held end
    places[#places + 1] = 2 * at
    places[#places + 1] = 2 * at + 1
    looked = looked + 1
  end
end
local live = count
for _, held in pairs(dead) do
  used, live = used - held[4], live - 1
end

local function ms(us) return math.floor(us / 1000) end

local holders = {}
for at = 1, math.min(count, MOST) do
  if #holders >= most_holders then break end
  local _, id = parsed(redis.call('HGET', permits, 'p' .. at))
  local held = not dead[id] and holder(id)
  if held and held[1] > now then
    holders[#holders + 1] = {held[2], held[3], tonumber(id), held[4], math.ceil((held[1] - now) / 1000), ms(now - held[5])}
  end
end
local named, waiters, seen = {}, 0, 0
local from = line.bottom or line.head
local to = math.min(line.tail, from + MOST - 1)
for first = from, to, 100 do
  local names = {}
  for ticket = first, math.min(to, first + 99) do names[#names + 1] = 'w' .. ticket end
  for _, packed in ipairs(redis.call('HMGET', permits, unpack(names))) do
    local waiter = packed and cmsgpack.unpack(packed)
    if waiter then seen = seen + 1 end
    if waiter and waiter[1] > now then
      waiters = waiters + 1
      if waiters <= most_waiters then named[waiters] = {waiter[4], waiter[3], waiter[8], ms(now - waiter[7])} end
    end
  end
end
if to < line.tail then waiters = waiters + math.max(0, line.count - seen) end
return {capacity, used, live, waiters, holders, named, last}
