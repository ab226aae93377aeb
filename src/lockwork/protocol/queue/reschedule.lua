-- Moves a waiting job to another time.
-- KEYS: <queue/control>; runs*
-- ARGV: id, wait, (session)
--   wait: ms (negative: a point in time); session: the sessions that the caller knows, with their run hashes
-- Out of memory: goes on
-- Reply: {state, ...}: scheduled (done); running, blocked, ended or unknown (nothing changed); or look and
--   all sessions: the caller repeats the call with these
-- Invariants: a job is in one place before and after; it is never leased before its time
-- include: now
-- include: queue/control
-- include: queue/place
local record = redis.call('HGET', jobs, id)
if not record then
  return {has_result(id) and 'ended' or 'unknown'}
end
if waits_in_flow(flows, id) then return {'blocked'} end
local where, sessions = place(id)
if where == 'dead' then return {'ended'} end
if where == 'look' then return {'look', unpack(sessions)} end
if where == 'running' then return {'running'} end
if where == 'ready' and wait == '0' then return {'scheduled'} end
remove_waiting(id, record)
if wait == '0' then enqueue_again(id, record) else schedule(id, wait) end
return {'scheduled'}
