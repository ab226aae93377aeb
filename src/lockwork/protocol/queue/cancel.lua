-- Cancels a job. A waiting job ends at once. A running job ends when its worker, which is notified, has stopped it.
-- KEYS: <queue/control>; runs*
-- ARGV: window: number, id, channels, (session)
--   window: ms; channels: prefix of a session's channel; session: the sessions that the caller knows, with their run
--     hashes
-- Out of memory: goes on
-- Reply: {state, ...}: cancelled; running (the worker received the request); ended or unknown (nothing changed); or
--   look and all sessions: the caller repeats the call with these
-- Invariants: an ended job does not change; after a cancellation request, a running job is not retried
-- include: now
-- include: queue/control
-- include: queue/place
local record = redis.call('HGET', jobs, id)
if not record then
  local blob = find_result(id)
  if not blob then return {'unknown'} end
  return {string.sub(blob, 1, 1) == 'c' and 'cancelled' or 'ended'}
end
local where, session = 'blocked', nil
if not waits_in_flow(flows, id) then where, session = place(id) end
if where == 'dead' then return {'ended'} end
if where == 'look' then return {'look', unpack(session)} end
if where == 'running' then
  local note = redis.call('HGET', job_notes, id) or '0'
  redis.call('HSET', job_notes, id, '1' .. string.sub(note, 2))
  publish(channels .. session, job_notes .. ' ' .. id)
  return {'running'}
end
local outcomes = {id, end_waiting(id, record, 'c')}
tracking.track(id, record, outcomes[2])
count_job(record, 'c')
flow_ended(id, record, 'c', '')
carry_on(outcomes, window)
store_outcomes(outcomes, window)
save_history()
return {'cancelled'}
