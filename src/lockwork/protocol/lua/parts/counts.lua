-- Counts of attempts that ended: in `stats` since the queue began, and by task for each minute and each hour.
--   minutes, hours: `NUMBER LETTER TASK` → count; the number is that of the minute or hour since 1970. Each hash holds every second
--     period, of 60 minutes or 168 hours, and expires when the next period of its own begins
--   counted_tasks: the tasks that are counted by their names → the last hour of each; `#` the hour in which old ones were deleted
-- A task beyond the first MOST_TASKS is counted as OTHER. A key of another type costs these counts, and no job.
-- KEYS: stats, minutes*2, hours*2, counted_tasks
-- include: now
local MOST_TASKS, OTHER = 200, '(other)'
local LETTERS = {succeeded = 's', retried = 'r', dead = 'd', cancelled = 'c', expired = 'x'}
local counted = {} -- by task

-- The counts of one task, to be added to.
local function counts_of(task)
  local found = counted[task]
  if not found then
    found = {succeeded = 0, retried = 0, dead = 0, cancelled = 0, expired = 0}
    counted[task] = found
  end
  return found
end

-- Returns a function that returns the counts of the next task of `TASK JOBS TASK JOBS ...`, and the place of its last job.
local function runs_of(tasks)
  local next_run, last = string.gmatch(tasks, '(%S+) (%d+)'), 0
  return function()
    local task, length = next_run()
    last = last + (length or math.huge)
    return counts_of(task or OTHER), last
  end
end

-- Count one job, under the task that its record names.
local function count_job(record, name)
  local task = string.match(record, '^[^;]*;%["([^"\\%c ]+)"')
  if not task then
    -- a name with signs that JSON escapes
    local text = string.match(record, '^[^;]*;(%["[^%c ]-")[,%]]')
    local readable, call = pcall(cjson.decode, (text or '') .. ']')
    task = readable and type(call) == 'table' and call[1]
  end
  local counts = counts_of(type(task) == 'string' and task ~= '' and task or OTHER)
  counts[name] = counts[name] + 1
end

-- A minute or an hour: its number and hash, and the ms for which that lasts. `length`: of a period.
local function now_in(hashes, seconds, length)
  local number = math.floor(now / (seconds * 1000000))
  local period = math.floor(number / length)
  return {
    number = number,
    hash = hashes[1 + period % 2],
    lasts = math.ceil((period + 2) * length * seconds * 1000 - now / 1000),
  }
end

-- Returns whether it is the first of this task.
local function add_count(moment, letter, task, count)
  if redis.pcall('HINCRBY', moment.hash, moment.number .. letter .. task, count) ~= count then return false end
  redis.call('PEXPIRE', moment.hash, moment.lasts)
  return true
end

-- Whether a task may be counted by its name, in this hour.
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

-- Write what was counted. `conclude` does that.
local function write_counts()
  if not next(counted) then return end
  local minute, hour = now_in(minutes, 60, 60), now_in(hours, 3600, 168)
  local totals = {}
  for task, counts in pairs(counted) do
    for name, count in pairs(counts) do
      if count > 0 then
        totals[name] = (totals[name] or 0) + count
        local letter = LETTERS[name]
        if add_count(hour, letter, task, count) and task ~= OTHER and not has_name(task, hour.number) then
          redis.call('HDEL', hour.hash, hour.number .. letter .. task)
          task = OTHER
          add_count(hour, letter, task, count)
        end
        add_count(minute, letter, task, count)
      end
    end
  end
  counted = {}
  local failed = (totals.retried or 0) + (totals.dead or 0)
  if failed > 0 then totals.failed = failed end
  for name, count in pairs(totals) do redis.call('HINCRBY', stats, name, count) end
end
