-- Cancels a job: one that waits ends at once; a running one when its worker, which is notified, has stopped it.
-- KEYS: <control>; runs*
-- ARGV: window: number, id, channels, (session)
--   window: ms; channels: what the channel of a session begins with; session: those that the caller knows, with their run hashes
-- Out of memory: goes on
-- Reply: {state, ...}: cancelled; running (its worker was asked); ended or unknown (nothing was done), or look, then all
--   sessions: the caller is to name them
-- Invariants: a job that has ended stays as it is; a job whose worker was asked does not run again on its own
-- include: now
-- include: control
-- include: place
local record = redis.call('HGET', jobs, id)
if not record then
  local blob = redis.call('HGET', results[1], id) or redis.call('HGET', results[2], id)
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
local outcomes = {id, withdraw(id, record, 'c')}
count_job(record, 'c')
flow_ended(id, record, 'c', '')
carry_on(outcomes, window)
conclude(outcomes, window)
save_history()
return {'cancelled'}
