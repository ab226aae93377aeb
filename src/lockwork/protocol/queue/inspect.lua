-- Reads everything stored about a job, and subscribes to its progress and its end.
-- Flags: no-writes
-- KEYS: jobs, results*2, tries, due, dead, errors, job_notes, watch, expiry, long_results, flows,
--   history, history_order, timelines, suspects
-- ARGV: id, channel
--   channel: '' to read without subscribing
-- Reply: {state, attempts or -1, due ms or -1, expires ms or -1, note, blob or error, record, now ms, timeline,
--   row of history, end (us), the entry in `tries`, with the suffix `!` for a suspect}; state: as in jobs_outcome;
--   unknown with a row: the result has expired
-- Invariants: writes only `watch`
-- include: now
-- include: flows/waits
-- include: queue/results
-- include: queue/long_results
-- include: watch
local now_ms = math.floor(now / 1000)
local blob, kept_until = long_result(long_results, expiry, id)
blob = blob or find_result(id)
local record = redis.call('HGET', jobs, id)
if not record then
  local row = redis.call('HGET', history, id) or ''
  local ended = redis.call('ZSCORE', history_order, id) or ''
  if not blob then return {'unknown', -1, -1, -1, '', '', '', now_ms, '', row, ended} end
  local attempts, old = string.match(blob, '^[cnx](%d+)[^;]*;(.*)$')
  local note = find_result(id .. ' p') or ''
  if ended == '' and kept_until and old then
    local kept_ms = string.match(old, '^%d,%d+/%d*/(%d+)') -- the time of a tracked job, since its end
    if kept_ms then ended = string.format('%.0f', (kept_until - kept_ms) * 1000) end
  end
  return {'ended', tonumber(attempts) or -1, -1, -1, note, old and string.sub(blob, 1, 1) or blob, old or '', now_ms, '', row, ended}
end
local tried = redis.call('HGET', tries, id) or ''
local attempts = tonumber(string.match(tried, '^%d+')) or 0
if string.find(tried, '/%d+/') and redis.call('ZSCORE', suspects, id) then tried = tried .. '!' end
local note = redis.call('HGET', job_notes, id) or ''
local timeline = redis.call('HGET', timelines, id) or ''
if redis.call('ZSCORE', dead, id) then
  return {'dead', attempts, -1, -1, note, redis.call('HGET', errors, id) or '', record, now_ms, timeline, '', redis.call('ZSCORE', dead, id) .. '000', tried}
end
local at = tonumber(redis.call('ZSCORE', due, id) or -1)
local limit = tonumber(redis.call('ZSCORE', expiry, id) or -1)
if channel ~= '' then add_watcher(watch, id, '\1' .. channel) end
return {at > now_ms and 'scheduled' or waits_in_flow(flows, id) and 'blocked' or 'active', attempts, at, limit, note, '', record, now_ms, timeline, '', '', tried}
