-- Confirms, releases or refunds a reservation, and enqueues a job with it, both or neither.
-- KEYS: <push>, dead; <stock>
-- ARGV: total, verb, id, (job, record, delay)
--   verb: c to confirm, r to release or f to refund; job: at most one; delay: ms
-- Out of memory: goes on
-- Reply: 1 done (now or before), 0 no such reservation (it expired, was released or refunded), and so nothing to confirm, or no step that
--   the job could be part of, -1 it is confirmed, so cannot be released, -2 it is held, so cannot be refunded; {waiting, size}: the
--   job's queue has no room, and nothing was done
-- Invariants: sold + held <= total; the job is enqueued once; waiters get what comes back
-- include: now
-- include: push
-- include: stock
-- include: stock_waiters
local job = ARGV[FIRST]
local no_room = job and refused(FIRST, false, dead)
open(total)
expire()
local kept = reservation(id)
-- a reservation that ran out is over, even if it is not yet its turn to be put back
if kept and kept[1] == 'h' and kept[5] <= clock then kept = nil end
local wrong = kept and ((verb == 'r' and kept[1] == 'c' and -1) or (verb == 'f' and kept[1] == 'h' and -2))
if not kept or wrong or (verb == 'c' and kept[1] == 'c') then
  serve()
  local done = kept or (verb ~= 'c' and not job)
  if not done and job then
    -- the job is this call's own: if it is known, an earlier try did all of it
    done = redis.call('HEXISTS', jobs, job) + redis.call('HEXISTS', results[1], job) + redis.call('HEXISTS', results[2], job) > 0
  end
  return wrong or (done and 1) or 0
end
if no_room then
  serve()
  return no_room
end
if verb == 'c' then
  redis.call('ZREM', holds, id)
  store(id, 'c', kept[2], kept[3], kept[4], kept[5], kept[6])
  redis.call('HINCRBY', stock, 'held', -kept[3])
  redis.call('HINCRBY', stock, 'sold', kept[3])
  count('s', kept[3])
else
  put_back(id, kept)
end
if job then push(FIRST, false) end
serve()
return 1
