-- Enqueues jobs that expire unless they start in time. Known ids do not change.
-- KEYS: <queue/push>, expiry: zset, dead
-- ARGV: again: flag, until_ms, (id, record, delay)
--   again: an earlier try may have been applied; until_ms: time to start, ms (negative: a point in time)
--   delay: as in queue/push
-- Indexed: stats
-- Reply: as queue/push
-- Invariants: as queue/push; only a new job gets an expiry
-- include: now
-- include: queue/push
local limit = moment(until_ms)
local no_room = check_room_for_new(FIRST, again, dead)
if no_room then return no_room end
for at = FIRST, #ARGV, STRIDE do
  local id = ARGV[at]
  local ended = again and has_result(id)
  if not ended and redis.call('HEXISTS', jobs, id) == 0 then redis.call('ZADD', expiry, limit, id) end
end
return push(FIRST, again)
