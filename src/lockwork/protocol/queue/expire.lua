-- Does a bounded part of the cleanup: ends jobs that did not start in time, resumes unfinished flow updates, and
-- deletes results with a separate time to live and old flows.
-- KEYS: <queue/control>
-- ARGV: window: number
--   window: ms
-- Out of memory: goes on
-- Reply: number of overdue entries that remain
-- Invariants: only a waiting job expires; a leased job is not in expiry, unless its worker returned it unstarted
--   (queue/settle)
-- include: now
-- include: queue/control
local now_ms = math.floor(now / 1000)
local outcomes = {}
local fits = allowance()
for _, id in ipairs(redis.call('ZRANGEBYSCORE', expiry, 0, now_ms, 'LIMIT', 0, 250)) do
  local flow = string.match(id, '^flow (.+)$')
  if flow then
    flow_engine().resume(flow)
  else
    if not fits(id) then break end
    local record = redis.call('HGET', jobs, id)
    if record then
      outcomes[#outcomes + 1] = id
      outcomes[#outcomes + 1] = end_waiting(id, record, 'x')
      tracking.track(id, record, outcomes[#outcomes])
      flow_ended(id, record, 'c', '')
      count_job(record, 'x')
    else
      redis.call('ZREM', expiry, id)
    end
  end
end
carry_on(outcomes, window)
store_outcomes(outcomes, window)
save_history()
local left, bytes = 250, 4 * BYTES -- limits of the fields to delete, which costs less than reading them
for _, id in ipairs(redis.call('ZREVRANGEBYSCORE', expiry, '(0', -now_ms, 'LIMIT', 0, 250)) do
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
return redis.call('ZCOUNT', expiry, 0, now_ms) + redis.call('ZCOUNT', expiry, -now_ms, '(0')
