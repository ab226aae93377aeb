-- What holds for a whole queue, in the hash `stats`: paused (since when, ms), rate (jobs/per ms), full (us at which the rate would
-- be unused again), turn (the time (us) given to the last worker that was rate-limited), concurrency, size, running (jobs in all
-- run hashes together), drain (channels to notify when nothing runs); fence, the highest of any delivery; seal, the secret that seals
-- offers (offer.lua); and heavy, whether the
-- queue has had a record or a note of more than HEAVY bytes since it was last empty.
-- KEYS: jobs, idle_workers, stats
-- include: now
-- include: publish
local rules = redis.call('HMGET', stats, 'paused', 'concurrency', 'running', 'rate', 'full', 'turn', 'size', 'drain', 'fence', 'heavy', 'seal')
local HEAVY = 4096
local BYTES = 1048576 -- of records that one call reads, or one record: larger calls would hold up everybody else
local at_once, at_work = tonumber(rules[2] or nil), tonumber(rules[3] or 0)
local rate_jobs, rate_us = string.match(rules[4] or '', '^(%d+)/(%d+)$')
rate_jobs, rate_us = tonumber(rate_jobs), tonumber(rate_us or 0) * 1000

-- A record has come: if it is large, scripts that read many records count their bytes from now on.
local function weigh(record)
  if #record > HEAVY and not rules[10] then
    rules[10] = '1'
    redis.call('HSET', stats, 'heavy', 1)
  end
end

-- Counts the bytes of what a call reads: returns a function that says whether these records, and their notes, still fit. The
-- first ones always do.
local function allowance(job_notes)
  local read = 0
  return function(id)
    local size = redis.call('HSTRLEN', jobs, id) + (job_notes and redis.call('HSTRLEN', job_notes, id) or 0)
    if read > 0 and read + size > BYTES then return false end
    read = read + size
    return true
  end
end

-- Whether nothing may be leased now, whatever waits. A call that changes that wakes idle workers.
local function at_rest()
  return rules[1] or (at_once and at_work >= at_once)
end

-- The generic cell rate algorithm: a burst of `rate_jobs`, then one each `rate_us / rate_jobs`.
local function rate_full()
  return math.min(math.max(tonumber(rules[5] or 0), now), now + rate_us)
end

-- How many jobs the rate allows now; and, if none, the us at which it allows one, and whether an idle worker was told to
-- come by then: a worker that was given a time has it as its score in `idle_workers`, the others when they went to sleep.
local function rate_allows()
  local full = rate_full()
  local free = math.floor((now + rate_us - full) * rate_jobs / rate_us)
  if free > 0 then return free end
  local soonest = full + rate_us / rate_jobs - rate_us
  local after, by = string.format('(%.0f', now), string.format('%.0f', soonest + 1000) -- they are given whole ms
  return 0, soonest, redis.call('ZCOUNT', idle_workers, after, by) > 0
end

-- How many of `want` jobs may be leased now; and, when the rate allows none, the ms after which to come again.
local function may_lease(want)
  if rules[1] then return 0 end
  if at_once then want = math.min(want, math.max(0, at_once - at_work)) end
  if not rate_jobs or want == 0 then return want end
  local free, soonest, awaited = rate_allows()
  if free > 0 then return math.min(want, free) end
  if tonumber(rules[5]) > now + rate_us then
    -- a clock that was set back costs one period at most
    rules[5] = string.format('%.0f', now + rate_us)
    redis.call('HSET', stats, 'full', rules[5])
  end
  -- one worker comes as soon as possible; the others get one moment after the other, so that they do not all come at once
  local turn = awaited and math.max(soonest, tonumber(rules[6] or 0)) or soonest
  if turn > soonest + 1000000 then turn = soonest end
  redis.call('HSET', stats, 'turn', string.format('%.0f', turn + rate_us / rate_jobs))
  return 0, math.ceil((turn - now) / 1000)
end

-- So many jobs have come to a run hash.
local function count_leased(count)
  if count == 0 then return end
  at_work = redis.call('HINCRBY', stats, 'running', count)
  if rate_jobs then
    rules[5] = string.format('%.0f', math.ceil(rate_full() + count * rate_us / rate_jobs))
    redis.call('HSET', stats, 'full', rules[5])
  end
end

-- So many have left one.
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
