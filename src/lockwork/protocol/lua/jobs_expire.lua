-- Ends jobs that had to begin by now, drops results that were kept for a time of their own, and goes on with flows that left
-- something to do.
-- KEYS: jobs, ready:0, ready:1, ready:2, due, idle, stats, results:0, results:1, tries, notes, dead, errors, watch, expiry,
--   withdrawn, kept, workers, lines, books, sleeping, ring:0, ring:1, ring:2, flows
-- ARGV: window ms
-- Reply: how many entries are left whose time has come
-- Invariants: only a job that waits expires; one that was ever leased is not in expiry any more
-- include: now
-- include: control
local today = math.floor(now / 1000)
local outcomes, expired, swept = {}, 0, 0
local ripe = redis.call('ZRANGEBYSCORE', expiry, '-inf', today, 'LIMIT', 0, 500)
for _, id in ipairs(ripe) do
  local record, flow = redis.call('HGET', jobs, id), string.match(id, '^flow (.+)$')
  if record then
    outcomes[#outcomes + 1] = id
    outcomes[#outcomes + 1] = withdraw(id, record, 'x')
    flow_ended(id, record, 'c', '')
    expired = expired + 1
  elseif flow then
    if swept < 5 then of_flows().sweep(flow) end
    swept = swept + 1
  else
    redis.call('HDEL', kept, id)
    redis.call('ZREM', expiry, id)
  end
end
carry_on(outcomes, tonumber(ARGV[1]))
conclude(outcomes, tonumber(ARGV[1]))
if expired > 0 then redis.call('HINCRBY', stats, 'expired', expired) end
return redis.call('ZCOUNT', expiry, '-inf', today)
