-- Cancels a job: one that waits ends at once; a running one when its worker, which is told, has stopped it.
-- KEYS: jobs, ready:0, ready:1, ready:2, due, idle, stats, results:0, results:1, tries, notes, dead, errors, watch, expiry,
--   withdrawn, kept, workers, lines, books, sleeping, ring:0, ring:1, ring:2, then the run hash of each session named in ARGV,
--   then flows
-- ARGV: window ms, id, what the channel of a session begins with, then the sessions that the caller knows
-- Reply: {state, ...}: cancelled; running (its worker was asked); ended or unknown (nothing was done), or look, then all
--   sessions: the caller is to name them
-- Invariants: a job that has ended stays as it is; a job of which its worker was asked does not run again on its own
-- include: now
-- include: control
local id = ARGV[2]
local record = redis.call('HGET', jobs, id)
if not record then
  local blob = redis.call('HGET', results, id) or redis.call('HGET', older, id)
  if not blob then return {'unknown'} end
  return {string.sub(blob, 1, 1) == 'c' and 'cancelled' or 'ended'}
end
local where, session = 'blocked', nil
if not waits_in_flow(flows, id) then where, session = place(id, 4) end
if where == 'dead' then return {'ended'} end
if where == 'look' then return {'look', unpack(session)} end
if where == 'running' then
  local note = redis.call('HGET', notes, id) or '0'
  redis.call('HSET', notes, id, '1' .. string.sub(note, 2))
  publish(ARGV[3] .. session, notes .. ' ' .. id)
  return {'running'}
end
local outcomes = {id, withdraw(id, record, 'c')}
flow_ended(id, record, 'c', '')
carry_on(outcomes, tonumber(ARGV[1]))
conclude(outcomes, tonumber(ARGV[1]))
redis.call('HINCRBY', stats, 'cancelled', 1)
return {'cancelled'}
