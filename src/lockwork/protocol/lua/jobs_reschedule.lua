-- Moves a job that waits to another time.
-- KEYS: jobs, ready:0, ready:1, ready:2, due, idle, stats, results:0, results:1, tries, notes, dead, errors, watch, expiry,
--   withdrawn, kept, workers, lines, books, sleeping, ring:0, ring:1, ring:2, then the run hash of each session named in ARGV,
--   then flows
-- ARGV: id, delay ms (negative: due at that moment), then the sessions that the caller knows
-- Reply: {state, ...}: scheduled (done); running, blocked, ended or unknown (nothing was done), or look, then all sessions
-- Invariants: a job is in one place before and after; it is never leased before its time
-- include: now
-- include: control
local id, wait = ARGV[1], ARGV[2]
local record = redis.call('HGET', jobs, id)
if not record then
  local ended = redis.call('HEXISTS', results, id) == 1 or redis.call('HEXISTS', older, id) == 1
  return {ended and 'ended' or 'unknown'}
end
if waits_in_flow(flows, id) then return {'blocked'} end
local where, sessions = place(id, 3)
if where == 'dead' then return {'ended'} end
if where == 'look' then return {'look', unpack(sessions)} end
if where == 'running' then return {'running'} end
if where == 'ready' and wait == '0' then return {'scheduled'} end
take_out(id, record)
if wait == '0' then line_up(id, record) else schedule(id, wait) end
return {'scheduled'}
