-- Reserves units for a buyer and enqueues a job: both or neither; with too few on sale, the buyer waits for them.
-- KEYS: <queue/push>, dead; <stock/stock>
-- ARGV: total, limit: number, id, buyer, units: number, hold: number, key, channel, (job, record, delay)
--   limit: per buyer (0: none); hold: ms; key: or ''; channel: '' to stop waiting; job: at most one; delay: ms
-- Indexed: stats, stock
-- Reply: as stock/reserve.lua; if code is SOLD_OUT and the caller waits, the fifth is the us until it should call again
-- Codes: <stock/earlier>
-- Invariants: as stock/reserve.lua; this call claims units that were reserved for the waiter, which then get their hold
--   and their job
-- include: now
-- include: queue/push
-- include: stock/stock
-- include: stock/earlier
-- include: stock/waiters
local no_room = #ARGV >= FIRST and check_room_for_new(FIRST, true, dead)
create_stock(total)
end_expired()

local function reserved(fence)
  if #ARGV >= FIRST then push(FIRST, true) end -- of a call repeated much later, the job may have ended
  reserve_for_waiters()
  notify_first_waiter()
  return answer(RESERVED, id, 'h', units, hold, fence, 1)
end

reserve_for_waiters()
local reservation = read_reservation(id)
if reservation and reservation.state == 'h' and reservation.unclaimed_hold_ms and reservation.expires_us > clock then
  if no_room then return answer_no_room(no_room) end -- the caller stops waiting (stock/leave.lua), which releases the units
  local expires_us = clock + hold * 1000
  write_reservation(id, {state = 'h', buyer = buyer, units = units, key = key, expires_us = expires_us, fence = reservation.fence})
  redis.call('ZADD', holds, expires_us, id)
  return reserved(reservation.fence)
end
local earlier = earlier_reservation(id, buyer, key)
if earlier then
  remove_waiter_of(id)
  return earlier
end

local on_sale, buyer_units = read_units(buyer)
if limit > 0 and buyer_units + units > limit then
  remove_waiter_of(id)
  return answer(OVER_LIMIT)
end
if on_sale >= units then
  if no_room then return answer_no_room(no_room) end
  remove_waiter_of(id)
  return reserved(reserve(id, buyer, units, key, clock + hold * 1000))
end
if channel == '' then
  remove_waiter_of(id)
  notify_first_waiter()
  return answer(SOLD_OUT)
end

local ticket, waiter = tonumber(redis.call('HGET', stock, 'i' .. id) or nil), nil
if ticket then
  waiter = read_waiter(stock, ticket)
else
  ticket = redis.call('HINCRBY', stock, 't', 1)
  redis.call('HSETNX', stock, 'h', ticket)
  redis.call('HSET', stock, 'i' .. id, ticket)
end
-- The first waiter checks when the next reservation expires, the two behind it a little later, in case it is dead.
local check_us, distance = CHECK_MS * 1000, ticket - tonumber(redis.call('HGET', stock, 'h'))
local _, next_expiry = unpack(redis.call('ZRANGE', holds, 0, 0, 'WITHSCORES'))
if next_expiry and distance <= 2 then
  check_us = math.min(check_us, math.max(1, tonumber(next_expiry) - clock) + distance * 50000)
end
local subscribed = is_subscribed(channel)
if not subscribed then check_us = math.min(check_us, UNSUBSCRIBED_CHECK_MS * 1000) end
local place = pack_waiter({
  ends_at_us = clock + PLACE_MS * 1000, claim_ms = hold, request = id, owner = buyer, channel = channel, next_check_us = clock + check_us,
  since_us = waiter and waiter.since_us or clock, units = units, secret = '', was_unsubscribed = not subscribed, key = key, limit = limit
})
redis.call('HSET', stock, 'w' .. ticket, place, 'clock', clock, 'ahead', ahead)
return answer(SOLD_OUT, '', '', 0, check_us)
