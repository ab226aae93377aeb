-- Jobs with a key (one at a time, in order) or a group (fair turns, limits of its own). Such a job enters a ready list only
-- after it was admitted here, when it is due: so the script that enqueues it puts it into the due set. A job that comes back
-- from a worker is admitted at once.
--   group_queue: sorted by text: `k KEY\nNUMBER ID` waits for its key, `g LEVEL GROUP\nNUMBER ID` for its group's turn; jobs
--     without a group are one more group, whose name is empty
--   groups: `h KEY` the job that has the key; of a group: `n GROUP` jobs that run, `l GROUP` limits, `t GROUP` the time at
--     which its rate is used up, `r LEVEL GROUP` that it is in that level's round-robin; `@ ID` its number; `#` the last number
--   throttled: groups whose rate is used up, `LEVEL GROUP` by the ms at which the next job may run; and `- GROUP` of which
--     nothing waits and nothing runs, by minus the ms at which its rate is unused again
-- KEYS: jobs, group_queue: zset, groups: hash, throttled: zset, rounds*3: list
-- include: now
-- include: unique_names

-- The header's parts; key is nil when there is none. Limits are `jobs at a time/jobs/per ms`, 0 for no limit.
local function header(record)
  local level, key, group, limits = string.match(record, '^([012]),[%d/]+,([^,;]*),([^,;]*),?([^,;]*)')
  if not level then return 1, nil, '', '' end
  return tonumber(level), key ~= '' and key or nil, group, limits
end

-- The first entry of a group queue, and its id.
local function first(line)
  local found = redis.call('ZRANGEBYLEX', group_queue, '[' .. line .. '\n', '(' .. line .. '\v', 'LIMIT', 0, 1)[1]
  return found, found and string.match(found, ' ([^ ]+)$')
end

-- `token`: of the delivery from which the job comes back. What was leased comes first again, in the order of the leases:
-- `-` and its fence is, as text, before all numbers.
local function stand(line, id, token)
  local number = token and '-' .. string.match(token, ' (%d+)') or redis.call('HINCRBY', groups, '#', 1)
  redis.call('ZADD', group_queue, 0, string.format('%s\n%016d %s', line, number, id))
  redis.call('HSET', groups, '@ ' .. id, number)
end

local function step_out(entry, id)
  redis.call('ZREM', group_queue, entry)
  redis.call('HDEL', groups, '@ ' .. id)
end

local function enter_round(level, group)
  if redis.call('HSETNX', groups, 'r ' .. level .. ' ' .. group, 1) == 1 then
    redis.call('RPUSH', rounds[1 + level], group)
  end
end

-- It has its key, or needs none: to its group's queue.
local function join_group(id, level, group, limits, token)
  if group ~= '' then redis.call('HSET', groups, 'l ' .. group, limits) end -- also that there are none
  stand('g ' .. level .. ' ' .. group, id, token)
  enter_round(level, group)
end

local function admit(id, record, token)
  local level, key, group, limits = header(record)
  if key then
    local holder = redis.call('HGET', groups, 'h ' .. key)
    if holder and holder ~= id then return stand('k ' .. key, id, token) end
    if not holder then redis.call('HSET', groups, 'h ' .. key, id) end
  end
  join_group(id, level, group, limits, token)
end

-- Delete the state of a group without waiting or running jobs.
local function tidy(group)
  if redis.call('HEXISTS', groups, 'n ' .. group) == 1 then return end
  for level = 0, 2 do
    if first('g ' .. level .. ' ' .. group) then return end
  end
  redis.call('HDEL', groups, 'l ' .. group)
  local full = tonumber(redis.call('HGET', groups, 't ' .. group) or nil)
  if full and full <= now then
    redis.call('HDEL', groups, 't ' .. group)
  elseif full then
    redis.call('ZADD', throttled, -math.ceil(full / 1000), '- ' .. group)
  end
end

-- A job of this group does not run any more: another may.
local function left_group(group)
  if redis.call('HINCRBY', groups, 'n ' .. group, -1) <= 0 then redis.call('HDEL', groups, 'n ' .. group) end
  for level = 0, 2 do
    if first('g ' .. level .. ' ' .. group) then enter_round(level, group) end
  end
  tidy(group)
end

-- The job does not need its key any more, which goes to the next.
local function left_key(key, id)
  if redis.call('HGET', groups, 'h ' .. key) ~= id then return end
  while true do
    local entry, next_id = first('k ' .. key)
    if not entry then return redis.call('HDEL', groups, 'h ' .. key) end
    step_out(entry, next_id)
    local record = redis.call('HGET', jobs, next_id)
    if record then -- else it was deleted by hand
      redis.call('HSET', groups, 'h ' .. key, next_id)
      local level, _, group, limits = header(record)
      return join_group(next_id, level, group, limits)
    end
  end
end

-- A leased job is not leased any more; `over`: it will not run again. Otherwise the caller puts it into the due set, or
-- admits it. Returns how many others may run for that: the next of its group, and the next of its key, which may be of
-- another group.
local function left(id, record, over)
  local _, key, group = header(record)
  left_group(group)
  if key and over then left_key(key, id) end
  if over then free_name(id, record) end
  return over and key and group ~= '' and 2 or 1
end

-- A waiting job leaves its group queue, if it is in one, and gives its key away.
local function leave_group_queue(id, record)
  local level, key, group = header(record)
  local number = redis.call('HGET', groups, '@ ' .. id)
  if number then
    for _, line in ipairs({'g ' .. level .. ' ' .. group, 'k ' .. (key or '')}) do
      step_out(string.format('%s\n%016d %s', line, number, id), id)
    end
    tidy(group)
  end
  if key then left_key(key, id) end
end

-- When the group may run one more job: now, or the ms at which its rate allows it; nil while as many run as may.
local function next_turn(group)
  local limits = redis.call('HMGET', groups, 'l ' .. group, 'n ' .. group, 't ' .. group)
  local most, jobs, per = string.match(limits[1] or '', '^(%d+)/(%d+)/(%d+)$')
  if not most then return 0 end
  if most ~= '0' and tonumber(limits[2] or 0) >= tonumber(most) then return nil end
  if jobs == '0' then return 0 end
  -- the generic cell rate algorithm: a burst of `jobs`, then one each `per / jobs`
  local each = per * 1000 / jobs
  local full = math.max(tonumber(limits[3] or 0), now)
  if full > now + per * 1000 then
    -- a clock that was set back costs one period at most
    full = now + per * 1000
    redis.call('HSET', groups, 't ' .. group, string.format('%.0f', full))
  end
  if full + each - now > per * 1000 then return math.ceil((full + each - per * 1000) / 1000) end
  redis.call('HSET', groups, 't ' .. group, string.format('%.0f', full + each))
  return 0
end

-- Up to `want` jobs of this level's groups, one of each in turn; and whether there are groups that were not looked at.
local passed_over = 0 -- groups that may run nothing: a call looks at so many at most
local function take_turns(level, want)
  local ids, round = {}, rounds[1 + level]
  while #ids < want do
    local group = redis.call('LPOP', round)
    if not group then break end
    local line = 'g ' .. level .. ' ' .. group
    local entry, id = first(line)
    local at = entry and next_turn(group)
    if at == 0 then
      step_out(entry, id)
      if redis.call('HEXISTS', jobs, id) == 1 then -- else it was deleted by hand
        redis.call('HINCRBY', groups, 'n ' .. group, 1)
        ids[#ids + 1] = id
      end
    end
    if at == 0 and first(line) then
      redis.call('RPUSH', round, group)
    else
      redis.call('HDEL', groups, 'r ' .. level .. ' ' .. group)
      if at and at > 0 then redis.call('ZADD', throttled, at, level .. ' ' .. group) end
      passed_over = passed_over + 1
      if passed_over > 1000 then break end -- the others in a later call: a group that left the round is not looked at again
    end
  end
  return ids, passed_over > 1000
end

-- Groups whose rate allows a job again, and those whose rate can be forgotten.
local function wake_throttled()
  local today = math.floor(now / 1000)
  for _ = 1, 100 do
    -- a group throttled for longer than a period of its rate was throttled before the clock was set back
    local last = redis.call('ZRANGE', throttled, -1, -1, 'WITHSCORES')
    local level, group = string.match(last[1] or '', '^(%d) (.*)$')
    local per = level and tonumber(string.match(redis.call('HGET', groups, 'l ' .. group) or '', '(%d+)$') or 0)
    if not per or last[2] - today <= per + 1 then break end
    redis.call('ZREM', throttled, last[1])
    if first('g ' .. level .. ' ' .. group) then enter_round(level, group) end
  end
  local awake = redis.call('ZRANGEBYSCORE', throttled, 0, today, 'LIMIT', 0, 100)
  for _, entry in ipairs(awake) do
    local level, group = string.match(entry, '^(%d) (.*)$')
    if first('g ' .. level .. ' ' .. group) then enter_round(level, group) end
  end
  if #awake > 0 then redis.call('ZREM', throttled, unpack(awake)) end
  local unused = redis.call('ZRANGEBYSCORE', throttled, -today, '(0', 'LIMIT', 0, 100)
  if #unused == 0 then return end
  redis.call('ZREM', throttled, unpack(unused))
  for _, entry in ipairs(unused) do tidy(string.sub(entry, 3)) end
end
