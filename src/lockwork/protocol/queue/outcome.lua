-- Reads the state of a job, and subscribes to its end.
-- Flags: no-writes
-- KEYS: jobs, results*2, due, dead, errors, watch, expiry, long_results, flows
-- ARGV: id, channel
--   channel: '' to read without subscribing
-- Reply: {state, blob}; state: ended (the stored blob; for c, only c and the id of the job that failed, if any; for x
--   and n, only that), dead (the blob is the error), scheduled, active, blocked (it waits for other jobs of its flow),
--   overdue (its time to start has passed: queue/expire ends it), or unknown
-- include: now
-- include: flows/waits
-- include: queue/results
-- include: queue/long_results
-- include: watch
local blob = long_result(long_results, expiry, id) or find_result(id)
if blob then
  local letter, reason = string.match(blob, '^([cnx])%d*([^;]*)')
  return {'ended', letter and letter .. reason or blob}
end
if redis.call('HEXISTS', jobs, id) == 0 then return {'unknown', ''} end
if redis.call('ZSCORE', dead, id) then return {'dead', redis.call('HGET', errors, id) or ''} end
local limit = redis.call('ZSCORE', expiry, id)
if limit and tonumber(limit) <= math.floor(now / 1000) then return {'overdue', ''} end
local at = redis.call('ZSCORE', due, id)
local state = at and tonumber(at) > math.floor(now / 1000) and 'scheduled' or waits_in_flow(flows, id) and 'blocked' or 'active'
if channel ~= '' then add_watcher(watch, id, channel) end
return {state, ''}
