-- Putting jobs into a queue. A record is `priority,attempts[/max deliveries],key,group;body`: this header is all the server reads.
-- The first keys are the queue's: jobs, ready:0, ready:1, ready:2, due, idle, stats, results:0, results:1
local jobs, due, idle, stats = KEYS[1], KEYS[5], KEYS[6], KEYS[7]
-- include: touch
touch('HLEN', 1, 1)
touch('LLEN', 2, 4)
touch('ZCARD', 5, 6)
-- include: limits

-- A record whose header cannot be read counts as one of normal priority: a worker will find out.
local function level(record)
  return tonumber(string.match(record, '^[012]') or 1)
end

local function ready_key(record)
  return KEYS[2 + level(record)]
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

-- Add jobs given as id, record, delay ms (or -moment) from ARGV[from] on; a known id is kept as it is. Returns how many are new.
-- One with a key or a group is due at once: it is admitted where due jobs are (lines.lua).
-- `again`: an earlier try may have been applied, and its job may have ended since: its result says so.
-- `first`: only so many of them.
local function push(from, again, first)
  local lists, pushed, ready, sooner = {['0'] = {}, ['1'] = {}, ['2'] = {}}, 0, 0, false
  for at = from, first and from + 3 * first - 1 or #ARGV, 3 do
    local id, record, delay = ARGV[at], ARGV[at + 1], ARGV[at + 2]
    local ended = again and (redis.call('HEXISTS', KEYS[8], id) == 1 or redis.call('HEXISTS', KEYS[9], id) == 1)
    if not ended and redis.call('HSETNX', jobs, id, record) == 1 then
      weigh(record)
      pushed = pushed + 1
      local level = delay == '0' and plain(record)
      if level then
        local list = lists[level]
        list[#list + 1] = id
        ready = ready + 1
      else
        redis.call('ZADD', due, moment(delay), id)
        if redis.call('ZRANK', due, id) == 0 then sooner = true end
      end
    end
  end
  for level, list in pairs(lists) do
    for at = 1, #list, 1000 do
      redis.call('RPUSH', KEYS[2 + level], unpack(list, at, math.min(at + 999, #list)))
    end
  end
  -- sent again it writes in any case: who asks whether replicas have it is answered for what the connection wrote last
  if pushed > 0 or again then redis.call('HINCRBY', stats, 'enqueued', pushed) end
  wake(ready + (sooner and 1 or 0)) -- who takes a ready one may have no place left, and must not be alone to know the next time
  return pushed
end
