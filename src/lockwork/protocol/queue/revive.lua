-- Lets a dead, cancelled or expired job run again, with its attempts reset.
-- KEYS: <queue/control>
-- ARGV: again: flag, id, wait
--   again: an earlier try may have been applied; wait: ms (negative: a point in time)
-- Out of memory: goes on
-- Reply: revived; or, if nothing changed: waiting (it has not ended), succeeded (or was skipped, or died and was
--   deleted), taken (another job has its unique name), blocked (it was cancelled while it waited for unended jobs of its
--   flow) or unknown
-- Invariants: a job is in one place before and after; its old outcome is deleted; no job of a flow runs before its
--   parents end
-- include: now
-- include: queue/control
-- include: queue/retry_until
-- include: history/ended_job
-- include: queue/long_results
local record = redis.call('HGET', jobs, id)
if record then
  if not redis.call('ZSCORE', dead, id) then return again and 'revived' or 'waiting' end
  if not retake_name(id, record, dead) then return 'taken' end
  redis.call('ZREM', dead, id)
  redis.call('HDEL', errors, id)
  redis.call('HDEL', tries, id)
  local limited
  record, limited = retry_until.drop(record)
  if limited then redis.call('HSET', jobs, id, record) end
else
  local blob = long_result(long_results, expiry, id) or find_result(id)
  record = blob and string.match(blob, '^[cx]%d+[^;]*;(.*)$')
  if not blob then
    record = kept_record(id)
    if not record then return 'unknown' end
  end
  if not record then return again and 'revived' or 'succeeded' end
  if waits_in_flow(flows, id) and flow_engine().still_waits(id) then return 'blocked' end
  if not retake_name(id, record, dead) then return 'taken' end
  record = retry_until.drop(record)
  redis.call('HSET', jobs, id, record)
  mark_if_heavy(record)
end
redis.call('HDEL', newer_results, id, id .. ' p')
redis.call('HDEL', older_results, id, id .. ' p')
if redis.call('HDEL', long_results, id) == 1 then redis.call('ZREM', expiry, id) end
forget_ended(id)
if wait == '0' then enqueue_again(id, record) else schedule(id, wait) end
redis.call('HINCRBY', stats, 'revived', 1)
return 'revived'
