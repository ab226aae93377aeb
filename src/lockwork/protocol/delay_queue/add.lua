-- Adds ids, or moves ids that are already in the queue.
-- KEYS: <delay_queue/delay_queue>
-- ARGV: request, known_id, due, delay: number, (id)
--   known_id: k(eep) or r(eplace) ids that are already in the queue; due: us, or '' to use delay, us
-- Reply: {number of added and moved ids, due us}
-- Invariants: an id is in the queue once; a request adds once; waiters are notified of an entry that is due before all
--   others
-- include: now
-- include: delay_queue/delay_queue
local due = tonumber(due) or now + delay
local result = earlier_result(request)
if result then return cmsgpack.unpack(result) end

local _, earliest = unpack(redis.call('ZRANGE', entries, 0, 0, 'WITHSCORES'))
local pairs = {}
for at = FIRST, #ARGV do
  pairs[#pairs + 1] = due
  pairs[#pairs + 1] = ARGV[at]
end
local count
if known_id == 'k' then
  count = redis.call('ZADD', entries, 'NX', unpack(pairs))
else
  count = redis.call('ZADD', entries, 'CH', unpack(pairs))
end
if count > 0 then
  remember(request, cmsgpack.pack({count, due}), 1)
  if due <= now then
    notify_waiters(count)
  elseif not earliest or due < tonumber(earliest) then
    notify_waiters(1)
  end
end
return {count, due}
