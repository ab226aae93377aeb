-- Ends jobs that had to begin by now, and drops results that were kept for a time of their own.
-- KEYS: jobs, ready:0, ready:1, ready:2, due, idle, stats, results:0, results:1, tries, notes, dead, errors, watch, expiry,
--   withdrawn, kept, workers, lines, books, sleeping, ring:0, ring:1, ring:2
-- ARGV: window ms
-- Reply: how many entries are left whose time has come
-- Invariants: only a job that waits expires; one that was ever leased is not in expiry any more
-- include: now
-- include: control
local today = math.floor(now / 1000)
local outcomes = {}
local ripe = redis.call('ZRANGEBYSCORE', expiry, '-inf', today, 'LIMIT', 0, 500)
for _, id in ipairs(ripe) do
  local record = redis.call('HGET', jobs, id)
  if record then
    outcomes[#outcomes + 1] = id
    outcomes[#outcomes + 1] = withdraw(id, record, 'x')
  else
    redis.call('HDEL', kept, id)
    redis.call('ZREM', expiry, id)
  end
end
conclude(outcomes, tonumber(ARGV[1]))
if #outcomes > 0 then redis.call('HINCRBY', stats, 'expired', #outcomes / 2) end
return redis.call('ZCOUNT', expiry, '-inf', today)
