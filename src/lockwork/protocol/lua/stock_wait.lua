-- Reserves units for a buyer and enqueues a job, both or neither; with too few on sale, the buyer waits for them.
-- KEYS: <push>, dead; <stock>
-- ARGV: total, limit: number, id, buyer, units: number, hold: number, key, channel, (job, record, delay)
--   limit: per buyer (0: none); hold: ms; key: or ''; channel: '': not any more; job: at most one; delay: ms
-- Reply: as stock_reserve; if code is 0 and it waits, the fifth is the us until it should look again
-- Invariants: as stock_reserve; units that were handed over are claimed by this, and so get their hold and their job
-- include: now
-- include: push
-- include: stock
-- include: stock_meet
-- include: stock_waiters
local no_room = #ARGV >= FIRST and refused(FIRST, true, dead)
open(total)
expire()

local function reserved(fence)
  if #ARGV >= FIRST then push(FIRST, true) end -- sent again long after, its job may have ended
  serve()
  alert()
  return {1, id, 'h', units, hold, fence, 1}
end

-- The caller will stop waiting (stock_leave), and give up what was handed over.
local function turned_away()
  return {-3, '', '', no_room[1], no_room[2], 0, 0}
end

serve()
local kept = reservation(id)
if kept and kept[1] == 'h' and kept[7] and kept[5] > clock then
  if no_room then return turned_away() end
  store(id, 'h', buyer, units, key, clock + hold * 1000, kept[6])
  redis.call('ZADD', holds, clock + hold * 1000, id)
  return reserved(kept[6])
end
local known = earlier(id, buyer, key)
if known then
  leave(id)
  return known
end

local counts = redis.call('HMGET', stock, 'total', 'sold', 'held', 'b' .. buyer)
if limit > 0 and (tonumber(counts[4] or 0)) + units > limit then
  leave(id)
  return {-1, '', '', 0, 0, 0, 0}
end
if counts[1] - counts[2] - counts[3] >= units then
  if no_room then return turned_away() end
  leave(id)
  return reserved(set_aside(id, buyer, units, key, clock + hold * 1000))
end
if channel == '' then
  leave(id)
  alert()
  return {0, '', '', 0, 0, 0, 0}
end

local ticket = tonumber(redis.call('HGET', stock, 'i' .. id) or nil)
if not ticket then
  ticket = redis.call('HINCRBY', stock, 't', 1)
  redis.call('HSETNX', stock, 'h', ticket)
  redis.call('HSET', stock, 'i' .. id, ticket)
end
-- The first waiter looks when the next reservation runs out, the two behind it a little later, in case it died.
local look, distance = LOOK * 1000, ticket - tonumber(redis.call('HGET', stock, 'h'))
local next_over = redis.call('ZRANGE', holds, 0, 0, 'WITHSCORES')[2]
if next_over and distance <= 2 then look = math.min(look, math.max(1, tonumber(next_over) - clock) + distance * 50000) end
local deaf = not listening(channel)
if deaf then look = math.min(look, DEAF_LOOK * 1000) end
local place = {clock + PLACE * 1000, id, channel, buyer, units, hold, key, limit, clock + look, deaf or nil}
redis.call('HSET', stock, 'w' .. ticket, cmsgpack.pack(place), 'clock', clock, 'ahead', ahead)
return {0, '', '', 0, look, 0, 0}
