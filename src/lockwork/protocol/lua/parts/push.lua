-- Putting jobs into a queue. A record is `priority,attempts[/max deliveries],key,group;body`: this header is all the server reads.
-- KEYS: jobs: hash, ready*3: list, due: zset, idle_workers: zset, stats, results*2
-- include: limits

-- A record whose header cannot be read counts as one of normal priority: a worker will find out.
local function level(record)
  return tonumber(string.match(record, '^[012]') or 1)
end

local function ready_key(record)
  return ready[1 + level(record)]
end

-- The level of a plain job, as text; nil for one with a key or a group. A record whose header cannot be read counts as plain.
local function plain(record)
  local level = string.match(record, '^([012]),[%d/]+,,;')
  if level or string.find(record, '^[012],[%d/]+,[^;]+;') then return level end
  return string.match(record, '^[012]') or '1'
end

-- include: wake

-- When a job is due that waits for `wait` ms, or until the moment -`wait`.
local function moment(wait)
  wait = tonumber(wait)
  return wait < 0 and -wait or math.floor(now / 1000) + wait
end

-- How many workers to wake for so many places that are free again: they sleep although jobs wait when all places are taken.
local function takers(count, group_queue)
  if not at_once or count == 0 then return 0 end
  -- no worker was woken for jobs that were scheduled while all places were taken
  local waiting = redis.call('ZCARD', group_queue) + (was_full and redis.call('ZCARD', due) > 0 and 1 or 0)
  for _, list in ipairs(ready) do waiting = waiting + redis.call('LLEN', list) end
  return math.min(count, waiting)
end

-- What waits, and the most that may, if `count` more would be too many.
local function crowded(count, dead)
  local size = tonumber(rules[7] or nil)
  if not size then return nil end
  -- what has a record waits, runs, or is dead
  local waiting = redis.call('HLEN', jobs) - at_work - redis.call('ZCARD', dead)
  return waiting + count > size and {waiting, size} or nil
end

-- The same for the jobs in ARGV[from] and after, those left out that are known; and for how many of the first there is room.
-- `again`: as for push; `met`, if given, says of a record whether it would be no new job.
local function refused(from, again, dead, met)
  local found = crowded((#ARGV - from + 1) / 3, dead)
  if not found then return nil end
  local waiting, size, new, first = found[1], found[2], 0, 0
  for at = from, #ARGV, 3 do
    local id = ARGV[at]
    local known = redis.call('HEXISTS', jobs, id) == 1
      or (again and (redis.call('HEXISTS', results[1], id) == 1 or redis.call('HEXISTS', results[2], id) == 1))
    if not known and not (met and met(ARGV[at + 1])) then new = new + 1 end
    if new == 0 or waiting + new <= size then first = first + 1 end
  end
  if new > 0 and waiting + new > size then return found, first end
end

-- Add jobs given as id, record, delay ms (or -moment) from ARGV[from] on; a known id is kept as it is. Returns how many are new.
-- One with a key or a group is due at once: it is admitted where due jobs are (groups.lua).
-- `again`: an earlier try may have been applied, and its job may have ended since: its result says so.
-- `first`: only so many of them.
local function push(from, again, first)
  local lists, pushed, runnable, sooner = {['0'] = {}, ['1'] = {}, ['2'] = {}}, 0, 0, false
  for at = from, first and from + 3 * first - 1 or #ARGV, 3 do
    local id, record, delay = ARGV[at], ARGV[at + 1], ARGV[at + 2]
    local ended = again and (redis.call('HEXISTS', results[1], id) == 1 or redis.call('HEXISTS', results[2], id) == 1)
    if not ended and redis.call('HSETNX', jobs, id, record) == 1 then
      weigh(record)
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
  -- sent again it writes in any case: WAIT answers for what the connection wrote last
  if pushed > 0 or again then redis.call('HINCRBY', stats, 'enqueued', pushed) end
  wake(runnable + (sooner and 1 or 0)) -- a worker that takes a ready job may have no slot left, and must not be the only one to know the next time
  return pushed
end
