-- Tracked jobs: an integration reports their ends, and sets in the header of a job for how long (ms) its end is kept.
-- One worker takes each end from `unreported`, and reports it (worker/execution/end_reports.py).
-- KEYS: unreported: zset, long_results: hash, expiry: zset
-- include: now
-- include: publish
-- include: metrics/counts
-- include: queue/unreported

-- Return for how long (ms) the end of this job is kept; nil for a job that is not tracked.
function tracking.kept_ms(record)
  return tonumber(string.match(record, '^%d,%d+/%d*/(%d+)') or nil)
end

-- Keep an outcome for its own time. queue/expire deletes it while the queue has workers.
function tracking.keep(id, blob, time)
  redis.call('HSET', long_results, id, blob)
  redis.call('ZADD', expiry, -(math.floor(now / 1000) + time), id)
  if redis.call('PTTL', long_results) < time + 60000 then redis.call('PEXPIRE', long_results, time + 60000) end
end

-- Add entries {time, `ID TASK`, time, `ID TASK`, ...}.
function tracking.add(entries)
  if #entries == 0 then return end
  redis.call('ZREMRANGEBYSCORE', unreported, 0, math.floor(now / 1000) - tracking.forget_ms)
  redis.call('ZADD', unreported, unpack(entries))
  redis.call('PEXPIRE', unreported, tracking.forget_ms)
end

-- Let any worker report the end of this job, if it is tracked; `blob`: the outcome of a job that has no record any more.
function tracking.track(id, record, blob)
  local time = tracking.kept_ms(record)
  if not time then return end
  if blob then tracking.keep(id, blob, time) end
  tracking.add({math.floor(now / 1000), id .. ' ' .. task_of(record)})
  for _, channel in ipairs(redis.call('ZRANGEBYSCORE', unreported, tracking.waiting, '+inf', 'LIMIT', 0, 100)) do
    redis.call('ZREM', unreported, channel)
    if notify(channel, unreported) > 0 then return end
  end
end
