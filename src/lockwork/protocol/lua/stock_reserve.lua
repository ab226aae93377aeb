-- Reserves units for a buyer and enqueues a job, both or neither.
-- KEYS: <push>, dead; <stock>
-- ARGV: total, limit: number, id, buyer, units: number, hold: number, key, (job, record, delay)
--   limit: per buyer (0: none); hold: ms; key: or ''; job: at most one; delay: ms
-- Reply: {code, id, state, units, ms left, fence, created}: code 1 reserved (now or before), 0 sold out, -1 over the limit,
--   -2 the key is another buyer's, -3 the job's queue has no room: units is what waits there, ms left how many may
-- Invariants: sold + held <= total; one reservation per key; a job if and only if the reservation was made now; nobody overtakes
--   those who wait and could have the units
-- include: now
-- include: push
-- include: stock
-- include: stock_meet
-- include: stock_line
local no_room = #ARGV >= FIRST and refused(FIRST, true, dead)
open(total)
expire()
local known = earlier(id, buyer, key)
if known then return known end

local counts = redis.call('HMGET', stock, 'total', 'sold', 'held', 'b' .. buyer, 't')
if counts[5] then
  serve()
  counts = redis.call('HMGET', stock, 'total', 'sold', 'held', 'b' .. buyer, 't')
end
if limit > 0 and (tonumber(counts[4] or 0)) + units > limit then return {-1, '', '', 0, 0, 0, 0} end
if counts[1] - counts[2] - counts[3] < units then return {0, '', '', 0, 0, 0, 0} end
if no_room then return {-3, '', '', no_room[1], no_room[2], 0, 0} end

local fence = set_aside(id, buyer, units, key, clock + hold * 1000)
if #ARGV >= FIRST then push(FIRST, true) end -- sent again long after, its job may have ended
if counts[5] then alert() end
return {1, id, 'h', units, hold, fence, 1}
