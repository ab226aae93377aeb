-- Enqueues jobs that must begin by a moment, or else expire; ids that are known already are kept as they are.
-- KEYS: jobs, ready:0, ready:1, ready:2, due, idle, stats, results:0, results:1, expiry, dead
-- ARGV: again (1: an earlier try may have been applied), ms until then (negative: at that moment), then as jobs_push
-- Reply: as jobs_push
-- Invariants: as jobs_push; only a job that is new gets a time to expire
-- include: now
-- include: push
local expiry = KEYS[10]
touch('ZCARD', 10, 10)
local again, limit = ARGV[1] == '1', moment(ARGV[2])
local no_room = refused(3, again, KEYS[11])
if no_room then return no_room end
for at = 3, #ARGV, 3 do
  local id = ARGV[at]
  local ended = again and (redis.call('HEXISTS', KEYS[8], id) == 1 or redis.call('HEXISTS', KEYS[9], id) == 1)
  if not ended and redis.call('HEXISTS', jobs, id) == 0 then redis.call('ZADD', expiry, limit, id) end
end
return push(3, again)
