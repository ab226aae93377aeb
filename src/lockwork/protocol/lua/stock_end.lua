-- Confirms or releases a reservation, and enqueues a job with it, both or neither.
-- KEYS: jobs, ready:0, ready:1, ready:2, due, idle, stats, results:0, results:1, books, holds
-- ARGV: total, c to confirm or r to release, id, then, if a job: id, record, delay ms
-- Reply: 1 done (now or before), 0 no such reservation (it expired or was released), -1 it is confirmed already
-- Invariants: sold + held <= total; the job is enqueued once
-- include: now
-- include: push
-- include: stock
redis.call('HDEL', KEYS[1], '') -- a script that has deleted may go on writing when the server is out of memory
open(ARGV[1])
expire()
local verb, id = ARGV[2], ARGV[3]
local kept = reservation(id)
if not kept then return verb == 'r' and 1 or 0 end
if kept[1] == 'c' then return verb == 'c' and 1 or -1 end
-- a reservation that ran out is over, even if it is not yet its turn to be put back
if kept[5] <= now then return verb == 'r' and 1 or 0 end
if verb == 'c' then
  redis.call('ZREM', holds, id)
  store(id, 'c', kept[2], kept[3], kept[4], kept[5], kept[6])
  redis.call('HINCRBY', books, 'held', -kept[3])
  redis.call('HINCRBY', books, 'sold', kept[3])
else
  put_back(id, kept)
end
if #ARGV > 3 then push(4, false) end
return 1
