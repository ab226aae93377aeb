-- Return where a job with a record is: dead, scheduled, ready (or in a group queue), or running and its session; or
-- look and all sessions, if the caller did not name all: it repeats the call with these.
-- KEYS: dead, due, groups, workers, runs*
-- needs: FIRST
local function place(id)
  if redis.call('ZSCORE', dead, id) then return 'dead' end
  if redis.call('ZSCORE', due, id) then return 'scheduled' end
  if redis.call('HEXISTS', groups, '@ ' .. id) == 1 then return 'ready' end
  local known = {}
  for at, run in ipairs(runs) do
    local session = ARGV[FIRST + at - 1]
    known[session] = true
    if redis.call('HEXISTS', run, id) == 1 then return 'running', session end
  end
  local sessions = redis.call('ZRANGE', workers, 0, -1)
  for _, session in ipairs(sessions) do
    if not known[session] then return 'look', sessions end
  end
  return 'ready'
end
