-- Takes the end of one job, to report it.
-- KEYS: <queue/unreported>
-- ARGV: again: flag, request, id, task
-- Out of memory: goes on
-- Reply: 1 if the caller reports the end; 0 if another worker does, or did, or the job has not ended
-- Invariants: one caller at most takes an end
-- include: now
-- include: queue/unreported
local TAKEN_MS = 120000 -- for how long a repeated call finds that it has taken an end
local now_ms, taken = math.floor(now / 1000), id .. ' ' .. task .. ' ' .. request
if redis.call('ZREM', unreported, id .. ' ' .. task) == 0 then
  return again and redis.call('ZSCORE', unreported, taken) and 1 or 0
end
redis.call('ZREMRANGEBYSCORE', unreported, TAKEN_MS - now_ms, '(0')
redis.call('ZADD', unreported, -now_ms, taken)
redis.call('PEXPIRE', unreported, tracking.forget_ms)
return 1
