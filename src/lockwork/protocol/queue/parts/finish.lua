-- Ending jobs.
-- KEYS: jobs, stats, results*2: hash, tries: hash, dead: zset, errors: hash, watch: hash, job_notes, <history/history>,
--   minutes*2, hours*2, counted_tasks, parked: zset, parked_since: hash, <queue/tracked>
-- include: now
-- include: metrics/counts
-- include: publish
-- include: history/history
-- include: queue/parked
-- include: queue/results
-- include: queue/tracked
-- Results live in two hashes. When the newer hash is older than `window` ms, it replaces the older hash, which is
-- deleted. So a result is kept for one to two windows, without a key or timer per result.
local function rotate_results(window)
  local born = tonumber(redis.call('HGET', stats, 'turned') or nil)
  if born and born > now then
    redis.call('HSET', stats, 'turned', now) -- the clock was set back: start the window again
  elseif not born or now - born > window * 1000 then
    redis.call('UNLINK', older_results) -- RENAME would free a large hash synchronously
    if redis.call('EXISTS', newer_results) == 1 then redis.call('RENAME', newer_results, older_results) end
    redis.call('HSET', stats, 'turned', now)
  end
end

-- Delete the note of a job that has ended. Its progress joins `outcomes`, and is kept as long as the outcome.
local function delete_note(id, note, outcomes)
  redis.call('HDEL', job_notes, id)
  local readable, facts = pcall(cmsgpack.unpack, string.sub(note, 2)) -- an unreadable note must not block other jobs
  local progress = readable and type(facts) == 'table' and facts[1]
  if type(progress) == 'string' and progress ~= '' then
    outcomes[#outcomes + 1] = id .. ' p'
    outcomes[#outcomes + 1] = '0' .. cmsgpack.pack({progress})
  end
end

-- Write the counts, and store outcomes {id, blob, id, blob, ...}. A blob's first byte is the state: s succeeded, f
-- failed, c cancelled, x expired, n skipped (the job of a flow runs only after a failure that did not occur). The rest
-- is the value, or attempts;record.
local function store_outcomes(outcomes, window)
  write_counts()
  if #outcomes == 0 then return end
  rotate_results(window)
  redis.call('HSET', newer_results, unpack(outcomes))
  redis.call('PEXPIRE', newer_results, 2 * window)
  if redis.call('EXISTS', watch) == 0 then return end
  for at = 1, #outcomes, 2 do
    local channels = redis.call('HGET', watch, outcomes[at])
    if channels then
      redis.call('HDEL', watch, outcomes[at])
      for channel in string.gmatch(channels, '[^%s\1]+') do publish(channel, outcomes[at]) end
    end
  end
end

-- Move a job that will not run again to the dead set. It keeps its record and its last error for inspection.
local function bury(id, tried, problem)
  redis.call('ZADD', dead, math.floor(now / 1000), id)
  redis.call('HSET', errors, id, problem)
  redis.call('HSET', tries, id, tried)
end

-- Return the number of attempts. `tries` and tokens have the form `attempts`, `attempts/crashes` or
-- `attempts/crashes/shared`.
--   attempts: deliveries that count
--   crashes: deliveries that ended with the death of a process that ran only this job
--   shared: deliveries that ended with the death of a process that ran other jobs, too
local function attempts(tried)
  return tonumber(string.match(tried or '', '^%d+')) or 0
end

-- Count a crash of the process that ran this job alone. Return the new `tries` and the number of crashes.
local function crashed(token)
  local attempt, crashes, shared = string.match(token, '^(%d+)/?(%d*)(/?%d*)')
  crashes = (tonumber(crashes) or 0) + 1
  return attempt .. '/' .. crashes .. shared, crashes
end

-- Count a shared crash: the process ran other jobs, too. Return the new `tries` and the unchanged number of crashes.
local function shared_crash(token)
  local attempt, crashes, shared = string.match(token, '^(%d+)/?(%d*)/?(%d*)')
  crashes = tonumber(crashes) or 0
  return attempt .. '/' .. crashes .. '/' .. (tonumber(shared) or 0) + 1, crashes
end

-- Return the outcome of a cancelled (c) or expired (x) job. It contains the record, so that the job can be revived.
local function ending(letter, tried, record)
  return letter .. attempts(tried) .. ';' .. record
end
