-- Queue-wide state in the hash `stats`:
--   paused: since when (ms); rate: jobs/per ms; full: when the rate would be unused again (us)
--   turn: the time (us) given to the last worker that was rate-limited
--   concurrency, size; running: jobs in all run hashes together; drain: channels to notify when no job runs
--   fence: the highest fence of any delivery; seal: the secret that seals offers (queue/parts/offer.lua)
--   heavy: set if a record or note was larger than HEAVY bytes since the queue was last empty
--   suspects: see queue/parts/suspects.lua; parked: set while the queue has parked jobs (queue/parts/parked.lua)
-- KEYS: jobs, idle_workers, stats
-- include: now
-- include: publish
local rules = redis.call('HMGET', stats, 'paused', 'concurrency', 'running', 'rate', 'full', 'turn', 'size', 'drain', 'fence', 'heavy', 'seal', 'suspects', 'parked')
local HEAVY = 4096
local BYTES = 1048576 -- limit of the records that one call reads, because a longer call blocks all clients
local at_once, at_work = tonumber(rules[2] or nil), tonumber(rules[3] or 0)
local rate_jobs, rate_us = string.match(rules[4] or '', '^(%d+)/(%d+)$')
rate_jobs, rate_us = tonumber(rate_jobs), tonumber(rate_us or 0) * 1000

-- Note that a large record exists: from now on, scripts that read many records count their bytes.
local function weigh(record)
  if #record > HEAVY and not rules[10] then
    rules[10] = '1'
    redis.call('HSET', stats, 'heavy', 1)
  end
end

-- Return a function that counts the bytes of the records and notes that a call reads. It returns whether the next
-- record still fits; the first record always fits.
local function allowance(job_notes)
  local read = 0
  return function(id)
    local size = redis.call('HSTRLEN', jobs, id) + (job_notes and redis.call('HSTRLEN', job_notes, id) or 0)
    if read > 0 and read + size > BYTES then return false end
    read = read + size
    return true
  end
end

-- Return whether a suspect waits for a free place or for the rate, which other jobs must then leave to it.
local function suspects_first()
  return rules[12] and tonumber(rules[12]) > now
end

-- Return whether the limits block all jobs except suspects. A call that changes this wakes idle workers.
local function at_rest()
  return rules[1] or (at_once and at_work >= at_once) or suspects_first()
end

-- GCRA (generic cell rate algorithm): a burst of `rate_jobs`, then one job every `rate_us / rate_jobs`.
local function rate_full()
  return math.min(math.max(tonumber(rules[5] or 0), now), now + rate_us)
end

-- Return how many jobs the rate allows now. If none, also return when it allows the next (us), and whether an idle
-- worker calls by then. The score of a worker in `idle_workers` is its scheduled time, or the time when it became idle.
local function rate_allows()
  local full = rate_full()
  local free = math.floor((now + rate_us - full) * rate_jobs / rate_us)
  if free > 0 then return free end
  local soonest = full + rate_us / rate_jobs - rate_us
  local after, by = string.format('(%.0f', now), string.format('%.0f', soonest + 1000) -- workers get whole ms
  return 0, soonest, redis.call('ZCOUNT', idle_workers, after, by) > 0
end

-- Return how many of `want` jobs may be leased now. If the rate allows none, also return the ms until the next try.
local function may_lease(want)
  if rules[1] then return 0 end
  if suspects_first() then return 0, math.ceil((rules[12] - now) / 1000) end
  if at_once then want = math.min(want, math.max(0, at_once - at_work)) end
  if not rate_jobs or want == 0 then return want end
  local free, soonest, awaited = rate_allows()
  if free > 0 then return math.min(want, free) end
  if tonumber(rules[5]) > now + rate_us then
    -- after the clock was set back, wait at most one period
    rules[5] = string.format('%.0f', now + rate_us)
    redis.call('HSET', stats, 'full', rules[5])
  end
  -- one worker retries as soon as possible; the others get later times, to spread their calls
  local turn = awaited and math.max(soonest, tonumber(rules[6] or 0)) or soonest
  if turn > soonest + 1000000 then turn = soonest end
  redis.call('HSET', stats, 'turn', string.format('%.0f', turn + rate_us / rate_jobs))
  return 0, math.ceil((turn - now) / 1000)
end

-- Count jobs that were added to a run hash.
local function count_leased(count)
  if count == 0 then return end
  at_work = redis.call('HINCRBY', stats, 'running', count)
  if rate_jobs then
    rules[5] = string.format('%.0f', math.ceil(rate_full() + count * rate_us / rate_jobs))
    redis.call('HSET', stats, 'full', rules[5])
  end
end

-- Count jobs that were removed from a run hash.
local was_full = false
local function count_freed(count)
  if count == 0 then return end
  was_full = at_rest()
  at_work = redis.call('HINCRBY', stats, 'running', -count)
  if rules[8] and at_work <= 0 then
    redis.call('HDEL', stats, 'drain')
    for channel in string.gmatch(rules[8], '%S+') do publish(channel, stats) end
  end
end
