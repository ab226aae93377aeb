-- Ending jobs.
-- KEYS: jobs, stats, results*2: hash, tries: hash, dead: zset, errors: hash, watch: hash, job_notes, <history>,
--   minutes*2, hours*2, counted_tasks
-- include: now
-- include: counts
-- include: publish
-- include: history
-- Results live in two generations: when the newer is older than `window` ms it becomes the older one, whose results go.
-- So a result is kept for one window at least and two at most, without a key or a timer of its own.
local function turn(window)
  local born = tonumber(redis.call('HGET', stats, 'turned') or nil)
  if born and born > now then
    redis.call('HSET', stats, 'turned', now) -- the clock was set back: what is newer stays so for another window
  elseif not born or now - born > window * 1000 then
    redis.call('UNLINK', results[2]) -- RENAME would free it at once, however large it is
    if redis.call('EXISTS', results[1]) == 1 then redis.call('RENAME', results[1], results[2]) end
    redis.call('HSET', stats, 'turned', now)
  end
end

-- Forget what a job that has run wrote down, but for its progress, which is kept as long as its outcome.
local function close_note(id, note, outcomes)
  redis.call('HDEL', job_notes, id)
  local readable, facts = pcall(cmsgpack.unpack, string.sub(note, 2)) -- or it holds up all that are settled with it
  local progress = readable and type(facts) == 'table' and facts[1]
  if type(progress) == 'string' and progress ~= '' then
    outcomes[#outcomes + 1] = id .. ' p'
    outcomes[#outcomes + 1] = '0' .. cmsgpack.pack({progress})
  end
end

-- Store outcomes {id, blob, id, blob, ...}; a blob's first byte is the state: s succeeded, f failed, c cancelled, x
-- expired; the rest is its value, or attempts;record. Write the counts, too.
local function conclude(outcomes, window)
  write_counts()
  if #outcomes == 0 then return end
  turn(window)
  redis.call('HSET', results[1], unpack(outcomes))
  redis.call('PEXPIRE', results[1], 2 * window)
  if redis.call('EXISTS', watch) == 0 then return end
  for at = 1, #outcomes, 2 do
    local channels = redis.call('HGET', watch, outcomes[at])
    if channels then
      redis.call('HDEL', watch, outcomes[at])
      for channel in string.gmatch(channels, '[^%s\1]+') do publish(channel, outcomes[at]) end
    end
  end
end

-- A job that will not run again keeps its record, with its last error, for inspection.
local function bury(id, tried, problem)
  redis.call('ZADD', dead, math.floor(now / 1000), id)
  redis.call('HSET', errors, id, problem)
  redis.call('HSET', tries, id, tried)
end

-- `tries` and tokens say `attempts` or `attempts/crashes`: the deliveries that count, and those of them that ended with the death of
-- the process that ran the job. The number of attempts:
local function attempts(tried)
  return tonumber(string.match(tried or '', '^%d+')) or 0
end

-- What a token's delivery becomes in `tries` when the process died that ran the job, and the number of crashes.
local function crashed(token)
  local attempt, crashes = string.match(token, '^(%d+)/?(%d*)')
  crashes = (tonumber(crashes) or 0) + 1
  return attempt .. '/' .. crashes, crashes
end

-- The outcome of a job that is cancelled (c) or has expired (x): it keeps its record, so that it can be run after all.
local function ending(letter, tried, record)
  return letter .. attempts(tried) .. ';' .. record
end
