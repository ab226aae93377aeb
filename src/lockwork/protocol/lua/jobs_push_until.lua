-- Enqueues jobs that must begin by a moment, or else expire; ids that are known already are kept as they are.
-- KEYS: <push>, expiry: zset, dead
-- ARGV: again: flag, until_ms, (id, record, delay)
--   again: an earlier try may have been applied; until_ms: ms until then (negative: at that moment); delay: as jobs_push
-- Reply: as jobs_push
-- Invariants: as jobs_push; only a job that is new gets a time to expire
-- include: now
-- include: push
local limit = moment(until_ms)
local no_room = refused(FIRST, again, dead)
if no_room then return no_room end
for at = FIRST, #ARGV, STRIDE do
  local id = ARGV[at]
  local ended = again and (redis.call('HEXISTS', results[1], id) == 1 or redis.call('HEXISTS', results[2], id) == 1)
  if not ended and redis.call('HEXISTS', jobs, id) == 0 then redis.call('ZADD', expiry, limit, id) end
end
return push(FIRST, again)
