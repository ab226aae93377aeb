-- Jobs of schedules.
-- KEYS: jobs, dead
-- include: queue/push
-- include: queue/retry_until
local added, jobs_of = {}, {}

-- Return whether a job waits, runs, or will run again.
local function unended(id)
  if id == '' then return false end
  return jobs_of[id] or (redis.call('HEXISTS', jobs, id) == 1 and not redis.call('ZSCORE', dead, id))
end

local function add(id, record)
  jobs_of[id] = true
  for _, part in ipairs({id, retry_until.start(record), '0'}) do added[#added + 1] = part end
end

-- Enqueue the added jobs. An id that is known, or has a result, does not change.
local function enqueue()
  if #added == 0 then return end
  -- push() reads ARGV
  for at = #ARGV, 1, -1 do ARGV[at] = nil end
  for at = 1, #added do ARGV[at] = added[at] end
  push(1, true)
end
