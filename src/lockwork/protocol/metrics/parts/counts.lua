-- Counts of ended attempts: in `stats` since the queue began, and by task for each minute and each hour.
--   minutes, hours: `NUMBER LETTER TASK` → count; NUMBER is the minute or hour since 1970. Each hash holds every second
--     period, of 60 minutes or 168 hours, and expires when its next period begins
--   counted_tasks: task with its own counts → the last hour of such a count; `#`: the hour of the last cleanup
-- A task beyond the first MOST_TASKS is counted as OTHER. A key of another type loses these counts, but no job.
-- KEYS: stats, minutes*2, hours*2, counted_tasks
-- include: now
-- include: metrics/task_name
local MOST_TASKS = 200
local NAMES = {s = 'succeeded', r = 'retried', d = 'dead', c = 'cancelled', x = 'expired'}
local counted = {} -- by task, then by letter

-- Return the counts of a task, for the caller to change.
local function counts_of(task)
  local found = counted[task]
  if not found then
    found = {}
    counted[task] = found
  end
  return found
end

-- Count one job, under the task that its record names.
local function count_job(record, letter)
  local counts = counts_of(task_of(record))
  counts[letter] = (counts[letter] or 0) + 1
end

-- Return the number of the current minute or hour, and its hash.
local function minute_now()
  local number = math.floor(now / 60000000)
  return number, minutes[1 + math.floor(number / 60) % 2]
end

local function hour_now()
  local number = math.floor(now / 3600000000)
  return number, hours[1 + math.floor(number / 168) % 2]
end

-- Set the expiry of the hash of a minute or hour. `seconds`: length of a period.
local function keep_period(hash, seconds)
  local ends = (math.floor(now / (seconds * 1000000)) + 2) * seconds * 1000
  redis.call('PEXPIRE', hash, math.ceil(ends - now / 1000))
end

-- Return whether a task has its own counts in this hour.
local function has_name(task, hour)
  if redis.pcall('HSETNX', counted_tasks, task, hour) ~= 1 then
    redis.pcall('HSET', counted_tasks, task, hour)
    return true
  end
  redis.call('PEXPIRE', counted_tasks, 2 * 168 * 3600 * 1000)
  if redis.call('HLEN', counted_tasks) <= MOST_TASKS then return true end
  if tonumber(redis.call('HGET', counted_tasks, '#') or 0) ~= hour then
    redis.call('HSET', counted_tasks, '#', hour)
    local known = redis.call('HGETALL', counted_tasks)
    for at = 1, #known, 2 do
      if math.abs(hour - known[at + 1]) > 168 then redis.call('HDEL', counted_tasks, known[at]) end
    end
  end
  if redis.call('HLEN', counted_tasks) <= MOST_TASKS + 1 then return true end -- one field is `#`
  redis.call('HDEL', counted_tasks, task)
  return false
end

-- Write the counts of this call. `store_outcomes` calls this.
local function write_counts()
  local minute, minute_hash = minute_now()
  local hour, hour_hash = hour_now()
  for task, counts in pairs(counted) do
    for letter, count in pairs(counts) do
      redis.call('HINCRBY', stats, NAMES[letter], count)
      if letter == 'r' or letter == 'd' then redis.call('HINCRBY', stats, 'failed', count) end
      local name = letter .. task
      if redis.pcall('HINCRBY', hour_hash, hour .. name, count) == count then
        -- the first count of this task
        if task ~= OTHER and not has_name(task, hour) then
          redis.call('HDEL', hour_hash, hour .. name)
          name = letter .. OTHER
          redis.call('HINCRBY', hour_hash, hour .. name, count)
        end
        keep_period(hour_hash, 168 * 3600)
      end
      if redis.pcall('HINCRBY', minute_hash, minute .. name, count) == count then keep_period(minute_hash, 3600) end
    end
  end
  counted = {}
end
