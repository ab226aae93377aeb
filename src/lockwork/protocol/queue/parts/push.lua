-- Adding jobs to a queue. A record is `priority,attempts[/max deliveries],key,group;body`. The
-- server reads only the header, before the semicolon. The priority is 0 (high), 1 (normal) or 2 (low); in a queue with
-- ten priorities also 3 to 6, between high and normal, and 7 to 9, between normal and low: jobs with a numbered priority
-- wait in the group queue (queue/parts/groups.lua).
-- KEYS: jobs: hash, ready*3: list, due: zset, idle_workers: zset, stats, results*2
-- include: queue/limits
-- include: queue/results

-- Return the level of a job. An unreadable header counts as normal priority: the worker reports the error.
local function level(record)
  return tonumber(string.match(record, '^[012]') or 1)
end

local function ready_key(record)
  return ready[1 + level(record)]
end

-- Return the level of a plain job, as text; nil for a job with a key, a group or a numbered priority. An unreadable
-- header counts as plain.
local function plain(record)
  local level = string.match(record, '^([012]),[%d/]+,,;')
  if level or string.find(record, '^[012],[%d/]+,[^;]+;') or string.find(record, '^[3-9],[%d/]+,[^;]*;') then return level end
  return string.match(record, '^[012]') or '1'
end

-- include: queue/wake

-- Return when a job with this delay is due (ms). A negative `wait` is a point in time.
local function moment(wait)
  wait = tonumber(wait)
  return wait < 0 and -wait or math.floor(now / 1000) + wait
end

-- Return how many workers to wake for `count` freed places. Workers sleep at full concurrency, even if jobs wait.
local function takers(count, group_queue)
  if not queue.max_running or count == 0 then return 0 end
  -- no worker was woken for jobs that were scheduled at full concurrency
  local waiting = redis.call('ZCARD', group_queue) + (queue.was_blocked and redis.call('ZCARD', due) > 0 and 1 or 0)
  for _, list in ipairs(ready) do waiting = waiting + redis.call('LLEN', list) end
  return math.min(count, waiting)
end

-- Return {waiting, size} if `count` more jobs would exceed the queue's size. Also return both numbers.
local function check_room(count, dead)
  local size = queue.size
  if not size then return nil end
  -- a job with a record waits, runs, or is dead
  local waiting = redis.call('HLEN', jobs) - queue.running - redis.call('ZCARD', dead)
  if waiting + count > size then return {waiting, size}, waiting, size end
end

-- Return {waiting, size} if the new jobs from ARGV[from] on would exceed the size. Also return how many leading jobs
-- fit, waiting, and size. `again`: as in push. `met`, if set, returns whether a record and id would not become a new job.
local function check_room_for_new(from, again, dead, met)
  local no_room, waiting, size = check_room((#ARGV - from + 1) / 3, dead)
  if not no_room then return nil end
  local new, first = 0, 0
  for at = from, #ARGV, 3 do
    local id = ARGV[at]
    local known = redis.call('HEXISTS', jobs, id) == 1 or (again and has_result(id))
    if not known and not (met and met(ARGV[at + 1], id)) then new = new + 1 end
    if new == 0 or waiting + new <= size then first = first + 1 end
  end
  if new > 0 and waiting + new > size then return no_room, first, waiting, size end
end

-- Add jobs (id, record, delay ms or -moment) from ARGV[from] on, except known ids. Return how many are new.
-- A job with a key or a group enters the due set, and is admitted later (queue/parts/groups.lua).
-- `again`: an earlier try may have been applied. If its job has ended since, a result exists.
-- `first`: add only the first jobs, up to this number.
local function push(from, again, first)
  local lists, pushed, runnable, sooner = {['0'] = {}, ['1'] = {}, ['2'] = {}}, 0, 0, false
  for at = from, first and from + 3 * first - 1 or #ARGV, 3 do
    local id, record, delay = ARGV[at], ARGV[at + 1], ARGV[at + 2]
    local ended = again and has_result(id)
    if not ended and redis.call('HSETNX', jobs, id, record) == 1 then
      mark_if_heavy(record)
      pushed = pushed + 1
      local level = delay == '0' and plain(record)
      if level then
        local list = lists[level]
        list[#list + 1] = id
        runnable = runnable + 1
      else
        redis.call('ZADD', due, moment(delay), id)
        if redis.call('ZRANK', due, id) == 0 then sooner = true end
      end
    end
  end
  for level, list in pairs(lists) do
    for at = 1, #list, 1000 do
      redis.call('RPUSH', ready[1 + level], unpack(list, at, math.min(at + 999, #list)))
    end
  end
  -- a retry always writes, because WAIT confirms the last write of the connection
  if pushed > 0 or again then redis.call('HINCRBY', stats, 'enqueued', pushed) end
  -- wake one more worker for an earlier due time: a worker that takes a ready job may have no slot left for it
  wake(runnable + (sooner and 1 or 0))
  return pushed
end
