-- Deletes a waiting or dead job, or the history of an ended job. The history does not record the deletion.
-- KEYS: <queue/control>; runs*
-- ARGV: window: number, id, (session)
--   window: ms; session: the sessions that the caller knows, with their run hashes
-- Out of memory: goes on
-- Reply: {state, ...}: deleted; running or unknown (nothing changed); or look and all sessions: the caller
--   repeats the call with these
-- Invariants: callers that wait for the result of a deleted job receive its end; the outcome of an ended job stays
--   until results expire, unless the job has its caller's own id
-- include: now
-- include: queue/control
-- include: queue/place
local record = redis.call('HGET', jobs, id)
if not record then
  redis.call('ZREM', history_order, id)
  local deleted = redis.call('HDEL', history, id)
  if string.sub(id, 1, 1) == ':' then -- a caller's own id becomes free
    deleted = deleted + redis.call('HDEL', newer_results, id, id .. ' p') + redis.call('HDEL', older_results, id, id .. ' p')
    if redis.call('HDEL', long_results, id) == 1 then redis.call('ZREM', expiry, id) end
  end
  return {deleted > 0 and 'deleted' or 'unknown'}
end
local where, sessions = 'blocked', nil
if not waits_in_flow(flows, id) then where, sessions = place(id) end
if where == 'look' then return {'look', unpack(sessions)} end
if where == 'running' then return {'running'} end
if where == 'dead' then
  redis.call('ZREM', dead, id)
  for _, key in ipairs({jobs, errors, tries, job_notes, timelines}) do redis.call('HDEL', key, id) end
  redis.call('HINCRBY', stats, 'forgotten', 1)
  return {'deleted'}
end
local outcomes = {}
end_waiting(id, record, 'c')
history_rows = {}
if redis.call('HEXISTS', watch, id) == 1 then
  outcomes = {id, 'f{"type":"JobDeleted","message":"it was deleted before it ran"}'}
end
flow_ended(id, record, 'c', '')
carry_on(outcomes, window)
store_outcomes(outcomes, window)
save_history()
redis.call('HINCRBY', stats, 'cleared', 1)
return {'deleted'}
