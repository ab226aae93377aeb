-- Reads all that is known of a job, and asks to be told of its progress and of its end.
-- KEYS: jobs, results:0, results:1, tries, due, dead, errors, notes, watch, expiry, kept, flows
-- ARGV: id, channel ('' to only look)
-- Reply: {state, attempts or -1, due ms or -1, expires ms or -1, note, blob or error, record, now ms}; state: as of jobs_outcome
-- Invariants: only `watch` is written
-- include: now
-- include: flow_waits
-- include: kept
-- include: watch
local id = ARGV[1]
local today = math.floor(now / 1000)
local blob = kept_result(KEYS[11], KEYS[10], id) or redis.call('HGET', KEYS[2], id) or redis.call('HGET', KEYS[3], id)
local record = redis.call('HGET', KEYS[1], id)
if not record then
  if not blob then return {'unknown', -1, -1, -1, '', '', '', today} end
  local attempts, old = string.match(blob, '^[cx](%d+)[^;]*;(.*)$')
  local note = redis.call('HGET', KEYS[2], id .. ' p') or redis.call('HGET', KEYS[3], id .. ' p') or ''
  return {'ended', tonumber(attempts) or -1, -1, -1, note, old and string.sub(blob, 1, 1) or blob, old or '', today}
end
local attempts = tonumber(string.match(redis.call('HGET', KEYS[4], id) or '', '^%d+')) or 0
local note = redis.call('HGET', KEYS[8], id) or ''
if redis.call('ZSCORE', KEYS[6], id) then
  return {'dead', attempts, -1, -1, note, redis.call('HGET', KEYS[7], id) or '', record, today}
end
local at = tonumber(redis.call('ZSCORE', KEYS[5], id) or -1)
local limit = tonumber(redis.call('ZSCORE', KEYS[10], id) or -1)
if ARGV[2] ~= '' then add_watcher(KEYS[9], id, '\1' .. ARGV[2]) end
return {at >= 0 and 'scheduled' or waits_in_flow(KEYS[12], id) and 'blocked' or 'active', attempts, at, limit, note, '', record, today}
