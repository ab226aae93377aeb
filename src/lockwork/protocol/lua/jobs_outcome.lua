-- Reads the state of a job, and asks for a message when it ends.
-- KEYS: jobs, results*2, due, dead, errors, watch, expiry, long_results, flows
-- ARGV: id, channel
--   channel: '' to only look
-- Reply: {state, blob}: state is ended (blob as stored; but c and the job whose
--   failure it was, if it was, or x, alone), dead (blob is the error), scheduled, active, blocked (it waits for others of its flow),
--   overdue (it should have begun: jobs_expire ends it), or unknown
-- include: now
-- include: flow_waits
-- include: long_results
-- include: watch
local blob = long_result(long_results, expiry, id) or redis.call('HGET', results[1], id) or redis.call('HGET', results[2], id)
if blob then
  local letter, reason = string.match(blob, '^([cx])%d*([^;]*)')
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
