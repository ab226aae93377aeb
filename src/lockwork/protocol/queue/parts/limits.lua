-- Queue-wide state in the hash `stats`:
--   paused: since when (ms); rate: jobs/per ms; full: when the rate would be unused again (us)
--   turn: the time (us) given to the last worker that was rate-limited
--   concurrency, size; running: jobs in all run hashes together; drain: channels to notify when no job runs
--   fence: the highest fence of any delivery; seal: the secret that seals offers (queue/parts/offer.lua)
--   heavy: set if a record or note was larger than HEAVY bytes since the queue was last empty
--   outbox: set while messages of flows to other queues wait (flows/parts/outbox.lua)
--   numbered: set if a job with a numbered priority has arrived since the queue was last empty
--   suspects: see queue/parts/suspects.lua; limited: see queue/parts/task_limits.lua
--   parked: set while the queue has parked jobs (queue/parts/parked.lua)
-- KEYS: jobs, idle_workers, stats
-- include: now
-- include: publish
-- include: queue/heavy
local BYTES = 1048576 -- limit of the records that one call reads, because a longer call blocks all clients

-- Return the state as a table; a missing field is nil or false. Code that writes a field also updates the table. Without a
-- rate, the table has none of its fields. Each call pays for this function, so it converts only fields that exist.
local function read_queue()
  local paused, concurrency, running, rate, full, turn, size, drain, fence, heavy, seal, suspects, parked, numbered, outbox, limited =
    unpack(redis.call('HMGET', stats, 'paused', 'concurrency', 'running', 'rate', 'full', 'turn', 'size', 'drain', 'fence', 'heavy',
    'seal', 'suspects', 'parked', 'numbered', 'outbox', 'limited'))
  local queue = {
    paused = paused, max_running = concurrency and tonumber(concurrency), running = running and tonumber(running) or 0,
    size = size and tonumber(size), drain_channels = drain, last_fence = fence and tonumber(fence) or 0, heavy = heavy, seal = seal,
    suspects_until = suspects and tonumber(suspects), has_parked = parked,
    numbered = numbered, outbox = outbox, limited = limited,
  }
  local rate_jobs, rate_ms = string.match(rate or '', '^(%d+)/(%d+)$')
  if rate_jobs then
    queue.rate_jobs, queue.rate_us = tonumber(rate_jobs), rate_ms * 1000
    queue.rate_unused_at, queue.retry_at = tonumber(full or 0), tonumber(turn or 0)
  end
  return queue
end

local queue = read_queue()

-- Note that a large record exists: from now on, scripts that read many records count their bytes.
local function mark_if_heavy(record)
  if #record > HEAVY and not queue.heavy then
    queue.heavy = '1'
    redis.call('HSET', stats, 'heavy', 1)
  end
end

-- Return the fence of the deliveries of this call. Fences increase even if the clock is set back.
local function next_fence()
  return math.max(now, queue.last_fence + 1)
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
  return queue.suspects_until and queue.suspects_until > now
end

-- Return whether the limits block all jobs except suspects. A call that changes this wakes idle workers.
local function is_blocked()
  return queue.paused or (queue.max_running and queue.running >= queue.max_running) or suspects_first()
end

-- Return when the rate would be unused again (us).
-- GCRA (generic cell rate algorithm): a burst of `rate_jobs`, then one job every `rate_us / rate_jobs`.
local function rate_unused_at()
  return math.min(math.max(queue.rate_unused_at, now), now + queue.rate_us)
end

local function set_rate_unused_at(us)
  queue.rate_unused_at = us
  redis.call('HSET', stats, 'full', string.format('%.0f', us))
end

-- Return how many jobs the rate allows now. If none, also return when it allows the next (us), and whether an idle
-- worker calls by then. The score of a worker in `idle_workers` is its scheduled time, or the time when it became idle.
local function rate_allows()
  local unused_at, rate_us, rate_jobs = rate_unused_at(), queue.rate_us, queue.rate_jobs
  local free = math.floor((now + rate_us - unused_at) * rate_jobs / rate_us)
  if free > 0 then return free end
  local soonest = unused_at + rate_us / rate_jobs - rate_us
  local after, by = string.format('(%.0f', now), string.format('%.0f', soonest + 1000) -- workers get whole ms
  return 0, soonest, redis.call('ZCOUNT', idle_workers, after, by) > 0
end

-- Return how many of `want` jobs may be leased now. If the rate allows none, also return the ms until the next try.
local function may_lease(want)
  if queue.paused then return 0 end
  if suspects_first() then return 0, math.ceil((queue.suspects_until - now) / 1000) end
  if queue.max_running then want = math.min(want, math.max(0, queue.max_running - queue.running)) end
  if not queue.rate_jobs or want == 0 then return want end
  local free, soonest, awaited = rate_allows()
  if free > 0 then return math.min(want, free) end
  -- after the clock was set back, wait at most one period
  if queue.rate_unused_at > now + queue.rate_us then set_rate_unused_at(now + queue.rate_us) end
  -- one worker retries as soon as possible; the others get later times, to spread their calls
  local retry_at = awaited and math.max(soonest, queue.retry_at) or soonest
  if retry_at > soonest + 1000000 then retry_at = soonest end
  redis.call('HSET', stats, 'turn', string.format('%.0f', retry_at + queue.rate_us / queue.rate_jobs))
  return 0, math.ceil((retry_at - now) / 1000)
end

-- Count jobs that were added to a run hash.
local function count_leased(count)
  if count == 0 then return end
  queue.running = redis.call('HINCRBY', stats, 'running', count)
  if queue.rate_jobs then set_rate_unused_at(math.ceil(rate_unused_at() + count * queue.rate_us / queue.rate_jobs)) end
end

-- Count jobs that were removed from a run hash.
local function count_freed(count)
  if count == 0 then return end
  queue.was_blocked = is_blocked()
  queue.running = redis.call('HINCRBY', stats, 'running', -count)
  if queue.drain_channels and queue.running <= 0 then
    redis.call('HDEL', stats, 'drain')
    for channel in string.gmatch(queue.drain_channels, '%S+') do publish(channel, stats) end
  end
end
