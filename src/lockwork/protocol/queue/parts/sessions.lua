-- Worker sessions. Scores in `workers` are the ends of leases (ms). A fraction of 0.5 ms marks a worker that received a
-- stop request. A score below 1 marks a session that is over, and whose jobs are being returned.
-- KEYS: workers
local STOPPING = 0.5

local function is_over(session)
  return tonumber(redis.call('ZSCORE', workers, session) or 0) < 1
end
