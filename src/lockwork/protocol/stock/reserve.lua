-- Reserves units for a buyer and enqueues a job: both or neither.
-- KEYS: <queue/push>, dead; <stock/stock>
-- ARGV: total, limit: number, id, buyer, units: number, hold: number, key, (job, record, delay)
--   limit: per buyer (0: none); hold: ms; key: or ''; job: at most one; delay: ms
-- Indexed: stats, stock
-- Reply: {code, id, state, units, ms left, fence, created, the stock's first number of units}: code RESERVED now or
--   before;
--   OTHER_BUYER: the key belongs to another buyer; QUEUE_FULL: the job's queue has no room: units is the number of
--     waiting jobs,
--   ms left the queue's size
-- Codes: <stock/earlier>
-- Invariants: sold + held <= total; one reservation per key; a job if and only if this call creates the reservation; no
--   caller overtakes waiters that could have the units
-- include: now
-- include: queue/push
-- include: stock/stock
-- include: stock/earlier
-- include: stock/waiters
local no_room = #ARGV >= FIRST and check_room_for_new(FIRST, true, dead)
create_stock(total)
end_expired()
local earlier = earlier_reservation(id, buyer, key)
if earlier then return earlier end

local on_sale, buyer_units, has_waiters = read_units(buyer)
if has_waiters then
  reserve_for_waiters()
  on_sale, buyer_units = read_units(buyer)
end
if limit > 0 and buyer_units + units > limit then return answer(OVER_LIMIT) end
if on_sale < units then return answer(SOLD_OUT) end
if no_room then return answer_no_room(no_room) end

local fence = reserve(id, buyer, units, key, clock + hold * 1000)
if #ARGV >= FIRST then push(FIRST, true) end -- of a call repeated much later, the job may have ended
if has_waiters then notify_first_waiter() end
return answer(RESERVED, id, 'h', units, hold, fence, 1)
