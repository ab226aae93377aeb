-- Reads how a job stands, and asks to be told when it ends.
-- KEYS: jobs, results:0, results:1, due, dead, errors, watch, expiry, kept, flows
-- ARGV: id, channel ('' to only look)
-- Reply: {state, blob}: state is ended (blob as stored; but c and the job whose
--   failure it was, if it was, or x, alone), dead (blob is the error), scheduled, active, blocked (it waits for others of its flow),
--   overdue (it should have begun: jobs_expire ends it), or unknown
-- include: now
-- include: flow_waits
-- include: kept
-- include: watch
local id = ARGV[1]
local blob = kept_result(KEYS[9], KEYS[8], id) or redis.call('HGET', KEYS[2], id) or redis.call('HGET', KEYS[3], id)
if blob then
  local letter, reason = string.match(blob, '^([cx])%d*([^;]*)')
  return {'ended', letter and letter .. reason or blob}
end
if redis.call('HEXISTS', KEYS[1], id) == 0 then return {'unknown', ''} end
if redis.call('ZSCORE', KEYS[5], id) then return {'dead', redis.call('HGET', KEYS[6], id) or ''} end
local limit = redis.call('ZSCORE', KEYS[8], id)
if limit and tonumber(limit) <= math.floor(now / 1000) then return {'overdue', ''} end
local state = redis.call('ZSCORE', KEYS[4], id) and 'scheduled' or waits_in_flow(KEYS[10], id) and 'blocked' or 'active'
if ARGV[2] ~= '' then add_watcher(KEYS[7], id, ARGV[2]) end
return {state, ''}
