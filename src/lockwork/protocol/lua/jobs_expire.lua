-- Ends jobs that had to begin by now, and goes on with flows that left something to do; then forgets results that were kept for
-- a time of their own, and flows that ended long ago. A bounded part of that.
-- KEYS: <control>
-- ARGV: window: number
--   window: ms
-- Out of memory: goes on
-- Reply: how many entries are left whose time has come
-- Invariants: only a job that waits expires; one that was ever leased is not in expiry any more
-- include: now
-- include: control
local today = math.floor(now / 1000)
local outcomes = {}
local fits = allowance()
for _, id in ipairs(redis.call('ZRANGEBYSCORE', expiry, 0, today, 'LIMIT', 0, 250)) do
  local flow = string.match(id, '^flow (.+)$')
  if flow then
    flow_engine().resume(flow)
  else
    if not fits(id) then break end
    local record = redis.call('HGET', jobs, id)
    if record then
      outcomes[#outcomes + 1] = id
      outcomes[#outcomes + 1] = withdraw(id, record, 'x')
      flow_ended(id, record, 'c', '')
      count_job(record, 'x')
    else
      redis.call('ZREM', expiry, id)
    end
  end
end
carry_on(outcomes, window)
conclude(outcomes, window)
save_history()
local left, bytes = 250, 4 * BYTES -- of fields to delete, which is cheaper than to read them
for _, id in ipairs(redis.call('ZREVRANGEBYSCORE', expiry, '(0', -today, 'LIMIT', 0, 250)) do
  local flow = string.match(id, '^flow (.+)$')
  if left <= 0 or bytes <= 0 then break end
  if flow then
    local jobs_forgotten, size = flow_engine().remove(flow, left)
    left, bytes = left - jobs_forgotten, bytes - size
  else
    left, bytes = left - 1, bytes - redis.call('HSTRLEN', long_results, id)
    redis.call('HDEL', long_results, id)
    redis.call('ZREM', expiry, id)
  end
end
return redis.call('ZCOUNT', expiry, 0, today) + redis.call('ZCOUNT', expiry, -today, '(0')
