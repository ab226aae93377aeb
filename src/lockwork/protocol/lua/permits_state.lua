-- Reads how many units are in use, and by whom.
-- KEYS: permits
-- ARGV: how many holders, and how many waiters, to name at most
-- Reply: {capacity, units in use, holders, waiters, {owner, request, fence, units, ms left, ms held} of some holders,
--   {owner, request, units, ms waited} of the first waiters}; all of the live ones only; waiters are
--   counted among the first 10,000 places
-- include: now
-- include: permits
local dead, places = {}, {1}
-- in a heap those whose time has come lie together at the top
while #places > 0 do
  local at = table.remove(places)
  local entry = at <= count and redis.call('HGET', books, 'p' .. at)
  local key, id = parsed(entry or '')
  if key and key <= now then
    local held = holder(id)
    if held[1] <= now then dead[id] = held end
    places[#places + 1] = 2 * at
    places[#places + 1] = 2 * at + 1
  end
end
for _, held in pairs(dead) do
  used, count = used - held[4], count - 1
end

local function ms(us) return math.floor(us / 1000) end

local holders, at = {}, 1
while #holders < math.min(count, tonumber(ARGV[1])) do
  local _, id = parsed(redis.call('HGET', books, 'p' .. at))
  if not dead[id] then
    local held = holder(id)
    holders[#holders + 1] = {held[2], held[3], tonumber(id), held[4], math.ceil((held[1] - now) / 1000), ms(now - held[5])}
  end
  at = at + 1
end
local line, waiters = {}, 0
for ticket = head, math.min(tail, head + 9999) do
  local packed = redis.call('HGET', books, 'w' .. ticket)
  local waiter = packed and cmsgpack.unpack(packed)
  if waiter and waiter[1] > now then
    waiters = waiters + 1
    if waiters <= tonumber(ARGV[2]) then
      line[waiters] = {waiter[4], waiter[3], waiter[8], ms(now - waiter[7])}
    end
  end
end
return {capacity, used, count, waiters, holders, line}
