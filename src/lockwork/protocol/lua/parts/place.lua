-- Where a job is that has a record: dead, scheduled, ready (or in a group queue), or running, then its session; or look, then all
-- sessions, when the caller does not know all of them.
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
