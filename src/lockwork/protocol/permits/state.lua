-- Reads the units in use, the holders and the waiters.
-- Flags: no-writes
-- KEYS: permits
-- ARGV: most_holders: number, most_waiters: number
--   maximum numbers to list: 1,000 at most
-- Reply: {capacity, units in use, holders, waiters, {owner, request, fence, units, ms left, ms held} of some holders,
--   {owner, request, units, ms waited} of the first waiters, fence of the newest grant}; live ones only. The call reads
--   1,000 holders and 1,000 places; further ones count as live
-- include: now
-- include: permits/permits
local MOST = 1000
local expired, positions, expired_count = {}, {1}, 0
-- in the heap, holders that may have expired form a subtree at the root
while #positions > 0 and expired_count < MOST do
  local at = table.remove(positions)
  local entry = at <= count and redis.call('HGET', permits, 'p' .. at)
  local key, fence = parse_entry(entry or '')
  if key and key <= now then
    local holder = read_holder(fence)
    if holder.deadline <= now then expired[fence] = holder end
    positions[#positions + 1] = 2 * at
    positions[#positions + 1] = 2 * at + 1
    expired_count = expired_count + 1
  end
end
local live = count
for _, holder in pairs(expired) do
  used, live = used - holder.units, live - 1
end

local function elapsed_ms(us) return math.floor(us / 1000) end

local holder_rows = {}
for at = 1, math.min(count, MOST) do
  if #holder_rows >= most_holders then break end
  local _, fence = parse_entry(redis.call('HGET', permits, 'p' .. at))
  local holder = not expired[fence] and read_holder(fence)
  if holder and holder.deadline > now then
    local left = math.ceil((holder.deadline - now) / 1000)
    holder_rows[#holder_rows + 1] = {holder.owner, holder.request, tonumber(fence), holder.units, left, elapsed_ms(now - holder.since_us)}
  end
end
local waiter_rows, live_waiters, places_read = {}, 0, 0
local from = waiters.first_skipped or waiters.head
local to = math.min(waiters.tail, from + MOST - 1)
for first = from, to, 100 do
  local names = {}
  for ticket = first, math.min(to, first + 99) do names[#names + 1] = 'w' .. ticket end
  for _, packed in ipairs(redis.call('HMGET', permits, unpack(names))) do
    if packed then places_read = places_read + 1 end
    if packed and ends_at_us(packed) > now then
      live_waiters = live_waiters + 1
      if live_waiters <= most_waiters then
        local waiter = unpack_waiter(packed)
        waiter_rows[live_waiters] = {waiter.owner, waiter.request, waiter.units, elapsed_ms(now - waiter.since_us)}
      end
    end
  end
end
if to < waiters.tail then live_waiters = live_waiters + math.max(0, waiters.count - places_read) end
return {capacity, used, live, live_waiters, holder_rows, waiter_rows, last_fence}
