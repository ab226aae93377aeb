-- Confirms, releases or refunds a reservation, and enqueues a job with it: both or neither.
-- KEYS: <queue/push>, dead; <stock/stock>
-- ARGV: total, verb, id, (job, record, delay)
--   verb: c to confirm, r to release or f to refund; job: at most one; delay: ms
-- Out of memory: goes on
-- Indexed: stats, stock
-- Reply: DONE now or before; MISSING: the reservation does not exist (it expired, was released or refunded), so it
--   cannot be confirmed, and no job is enqueued; CONFIRMED_BEFORE: it is confirmed, so it cannot be released;
--   STILL_HELD: it is held, so it cannot be refunded; {waiting, size}: the job's queue is full, and nothing changed
-- Codes: done=1, missing=0, confirmed_before=-1, still_held=-2
-- Invariants: sold + held <= total; the job is enqueued once; waiters get the released units
-- include: now
-- include: queue/push
-- include: queue/retry_until
-- include: stock/stock
-- include: stock/waiters
local job = ARGV[FIRST]
local no_room = job and check_room_for_new(FIRST, false, dead)
create_stock(total)
end_expired()
local reservation = read_live_reservation(id) -- end_expired may have left an expired reservation
local confirmed, held = reservation and reservation.state == 'c', reservation and reservation.state == 'h'
local refusal = (verb == 'r' and confirmed and CONFIRMED_BEFORE) or (verb == 'f' and held and STILL_HELD)
if not reservation or refusal or (verb == 'c' and confirmed) then
  reserve_for_waiters()
  local done = reservation or (verb ~= 'c' and not job)
  if not done and job then
    -- the job belongs to this request only: if it exists, an earlier try did everything
    done = redis.call('HEXISTS', jobs, job) == 1 or has_result(job)
  end
  return refusal or (done and DONE) or MISSING
end
if no_room then
  reserve_for_waiters()
  return no_room
end
if verb == 'c' then
  redis.call('ZREM', holds, id)
  reservation.state, reservation.unclaimed_hold_ms = 'c', nil
  write_reservation(id, reservation)
  redis.call('HINCRBY', stock, 'held', -reservation.units)
  redis.call('HINCRBY', stock, 'sold', reservation.units)
  count_units('s', reservation.units)
else
  remove_reservation(id, reservation)
end
if job then
  ARGV[FIRST + 1] = retry_until.start(ARGV[FIRST + 1])
  push(FIRST, false)
end
reserve_for_waiters()
return DONE
