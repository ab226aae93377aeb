-- Jobs with a key run one at a time, in order. Groups take turns, and each group has its own limits. A job with a key
-- or a group enters a ready list only after it is due and admitted here, so the enqueuing script adds it to the due
-- set. A job that a worker returns is admitted at once.
--   group_queue: sorted by text. `k KEY\nNUMBER ID` waits for its key. `g LEVEL GROUP\nNUMBER ID` waits for its group's
--     turn. `t LEVEL TASK\nNUMBER ID` waits for a limit of its task (queue/parts/task_limits.lua). Jobs without a group
--     form a group with an empty name
--   groups: `h KEY`: the job that has the key; `n GROUP`: running jobs; `l GROUP`: limits; `t GROUP`: the time (us)
--     when its rate would be unused again; `s GROUP`: the time (us) until which its suspects run first;
--     `r LEVEL GROUP`: set while the group is in that level's round-robin; `c LEVEL`: the group of a numbered level that
--     had the last turn; `@ ID`: a job's number; `#`: the last number. A number is the time (us) since which the job
--     waits
--   throttled: `LEVEL GROUP`: a group whose rate is used up, scored by the time (ms) when its next job may run.
--     `- GROUP`: a group without waiting or running jobs, scored by minus the time (ms) when its rate is unused again
-- KEYS: jobs, group_queue: zset, groups: hash, throttled: zset, rounds*3: list
-- include: now
-- include: queue/limits
-- include: queue/unique_names
-- include: queue/task_limits

-- Return the parts of a job's header; key is nil without one. Limits: `concurrent jobs/jobs/per ms`; 0: no limit.
local function header(record)
  local level, key, group, limits = string.match(record, '^(%d),[%d/]+,([^,;]*),([^,;]*),?([^,;]*)')
  if not level then return 1, nil, '', '' end
  return tonumber(level), key ~= '' and key or nil, group, limits
end

local admit, release_slot, leave_group_queue, next_turn, take_first, take_turns, wake_throttled
local passed_over = 0 -- groups and jobs that could not run; limited per call
do -- a script has at most 200 locals

  -- Return the first entry of a line of the group queue, and its job id.
  local function first(line)
    local entry = unpack(redis.call('ZRANGEBYLEX', group_queue, '[' .. line .. '\n', '(' .. line .. '\v', 'LIMIT', 0, 1))
    return entry, entry and string.match(entry, ' ([^ ]+)$')
  end

  -- Return a number for a job that waits since `since` (us): that time, or the last number plus one. This sorts
  -- a line by age.
  local last_number
  local function next_number(since)
    last_number = math.max(since, (last_number or tonumber(redis.call('HGET', groups, '#') or 0)) + 1)
    local number = string.format('%016.0f', last_number)
    redis.call('HSET', groups, '#', number)
    return number
  end

  -- Return the number of a job that returns from the delivery with this token. Returned jobs come first, in the order of
  -- their leases: `-` and the fence sorts, as text, before all numbers.
  local function returned_number(token)
    return string.format('%016d', '-' .. string.match(token, ' (%d+)'))
  end

  local function add_to_group_queue(line, id, number)
    redis.call('ZADD', group_queue, 0, line .. '\n' .. number .. ' ' .. id)
    redis.call('HSET', groups, '@ ' .. id, number)
  end

  local function remove_from_group_queue(entry, id)
    redis.call('ZREM', group_queue, entry)
    redis.call('HDEL', groups, '@ ' .. id)
  end

  -- A numbered level has no list of its round-robin (queue/parts/numbered.lua).
  local function enter_round(level, group)
    if tonumber(level) > 2 then
      if not queue.numbered then
        queue.numbered = '1'
        redis.call('HSET', stats, 'numbered', 1)
      end
      return
    end
    if redis.call('HSETNX', groups, 'r ' .. level .. ' ' .. group, 1) == 1 then
      redis.call('RPUSH', rounds[1 + level], group)
    end
  end

  -- Add a job that has its key, or needs none, to its group's queue.
  local function join_group(id, level, group, limits, number)
    if group ~= '' then redis.call('HSET', groups, 'l ' .. group, limits) end -- an empty entry means no limits
    add_to_group_queue('g ' .. level .. ' ' .. group, id, number)
    enter_round(level, group)
  end

  -- Admit a job that became due at `due_ms`, or that returns from the delivery with this token.
  function admit(id, record, due_ms, token)
    local level, key, group, limits = header(record)
    local number = token and returned_number(token) or next_number(due_ms * 1000)
    if key then
      local holder = redis.call('HGET', groups, 'h ' .. key)
      if holder and holder ~= id then return add_to_group_queue('k ' .. key, id, number) end
      if not holder then redis.call('HSET', groups, 'h ' .. key, id) end
    end
    join_group(id, level, group, limits, number)
  end

  -- Delete the state of a group without waiting or running jobs.
  local function tidy(group)
    if redis.call('HEXISTS', groups, 'n ' .. group) == 1 then return end
    for level = 0, queue.numbered and 9 or 2 do
      if first('g ' .. level .. ' ' .. group) then return end
    end
    redis.call('HDEL', groups, 'l ' .. group, 's ' .. group)
    local unused_at = tonumber(redis.call('HGET', groups, 't ' .. group) or nil)
    if unused_at and unused_at <= now then
      redis.call('HDEL', groups, 't ' .. group)
    elseif unused_at then
      redis.call('ZADD', throttled, -math.ceil(unused_at / 1000), '- ' .. group)
    end
  end

  -- Count a job of this group as ended, so that another job of the group may run.
  local function left_group(group)
    if redis.call('HINCRBY', groups, 'n ' .. group, -1) <= 0 then redis.call('HDEL', groups, 'n ' .. group) end
    for level = 0, 2 do
      if first('g ' .. level .. ' ' .. group) then enter_round(level, group) end
    end
    tidy(group)
  end

  -- Pass the key of a job to the next job. The next job keeps its number, which says since when it waits.
  local function left_key(key, id)
    if redis.call('HGET', groups, 'h ' .. key) ~= id then return end
    while true do
      local entry, next_id = first('k ' .. key)
      if not entry then return redis.call('HDEL', groups, 'h ' .. key) end
      remove_from_group_queue(entry, next_id)
      local record = redis.call('HGET', jobs, next_id)
      if record then -- else an operator deleted it with redis-cli
        redis.call('HSET', groups, 'h ' .. key, next_id)
        local level, _, group, limits = header(record)
        return join_group(next_id, level, group, limits, string.match(entry, '\n(%S+) '))
      end
    end
  end

  -- End the lease of a job. `over`: the job will not run again; otherwise the caller adds it to the due set or admits it.
  -- Return how many other jobs may run instead: the next job of its group, and the next job of its key, which may belong
  -- to another group.
  function release_slot(id, record, over)
    local _, key, group = header(record)
    left_group(group)
    if key and over then left_key(key, id) end
    if over then free_name(id, record) end
    return over and key and group ~= '' and 2 or 1
  end

  -- Remove a waiting job from its group queue, if it is in one, and pass its key to the next job.
  function leave_group_queue(id, record)
    local level, key, group = header(record)
    local number = redis.call('HGET', groups, '@ ' .. id)
    if number then
      local task = task_limits.of(record)
      for _, line in ipairs({'g ' .. level .. ' ' .. group, 'k ' .. (key or ''), task and 't ' .. level .. ' ' .. task}) do
        remove_from_group_queue(line .. '\n' .. number .. ' ' .. id, id)
      end
      tidy(group)
    end
    if key then left_key(key, id) end
  end

  -- Return when the group may run one more job: 0 for now, or the ms when its rate allows it. At the group's concurrency
  -- limit, return nil.
  function next_turn(group)
    local limits, running, unused_at = unpack(redis.call('HMGET', groups, 'l ' .. group, 'n ' .. group, 't ' .. group))
    local most, jobs, per = string.match(limits or '', '^(%d+)/(%d+)/(%d+)$')
    if not most then return 0 end
    if most ~= '0' and tonumber(running or 0) >= tonumber(most) then return nil end
    if jobs == '0' then return 0 end
    -- GCRA (generic cell rate algorithm): a burst of `jobs`, then one job every `per / jobs`
    local each = per * 1000 / jobs
    unused_at = math.max(tonumber(unused_at or 0), now)
    if unused_at > now + per * 1000 then
      -- after the clock was set back, wait at most one period
      unused_at = now + per * 1000
      redis.call('HSET', groups, 't ' .. group, string.format('%.0f', unused_at))
    end
    if unused_at + each - now > per * 1000 then return math.ceil((unused_at + each - per * 1000) / 1000) end
    redis.call('HSET', groups, 't ' .. group, string.format('%.0f', unused_at + each))
    return 0
  end

  -- Return the ms until which suspects of the group run first, if any wait.
  local function suspects_turn(group)
    local ends = queue.suspects_until and tonumber(redis.call('HGET', groups, 's ' .. group) or nil)
    return ends and ends > now and math.ceil(ends / 1000)
  end

  local function hold(level, task, id, number)
    add_to_group_queue('t ' .. level .. ' ' .. task, id, number)
  end

  -- Hold a job that was taken from a ready list until its task may start a job.
  function task_limits.hold(level, task, id)
    hold(level, task, id, next_number(now))
  end

  -- Remove a waiting job without a key or group, if it is held; return whether it was.
  function task_limits.leave(id, record)
    local task = task_limits.of(record)
    local number = task and redis.call('HGET', groups, '@ ' .. id)
    if not number then return false end
    remove_from_group_queue('t ' .. header(record) .. ' ' .. task .. '\n' .. number .. ' ' .. id, id)
    return true
  end

  -- Return whether the queue holds a job for its task.
  function task_limits.any_held()
    return queue.limited and #redis.call('ZRANGEBYLEX', group_queue, '[t ', '(t!', 'LIMIT', 0, 1) > 0
  end

  -- Choose up to `want` held jobs of this level.
  function task_limits.choose_held(level, want)
    local ids, low, last = {}, '[t ' .. level .. ' ', '(t ' .. level .. '!'
    while #ids < want do
      local entry = unpack(redis.call('ZRANGEBYLEX', group_queue, low, last, 'LIMIT', 0, 1))
      if not entry then break end
      local line, task = string.match(entry, '^(t %d (%S+))\n')
      local state = task_limits.load(task)
      local room, at_ms = task_limits.room(state)
      if at_ms then task_limits.next_ms = math.min(task_limits.next_ms or at_ms, at_ms) end
      while room > 0 and #ids < want do
        local id
        entry, id = first(line)
        if not entry then break end
        remove_from_group_queue(entry, id)
        local record = redis.call('HGET', jobs, id) -- else an operator deleted it with redis-cli
        local _, key, group, limits = header(record or '')
        local at = 0
        if record and not plain(record) then
          if group ~= '' then redis.call('HSET', groups, 'l ' .. group, limits) end -- they are deleted with the last turn
          at = suspects_turn(group) or next_turn(group)
        end
        if record and at == 0 then
          if not plain(record) then redis.call('HINCRBY', groups, 'n ' .. group, 1) end
          ids[#ids + 1] = id
          state.pending = state.pending + 1
          room = task_limits.room(state)
        elseif record then
          join_group(id, level, group, limits, string.match(entry, '\n(%S+) ')) -- it waits for its group
          if at then redis.call('ZADD', throttled, at, level .. ' ' .. group) end
          passed_over = passed_over + 1
          if passed_over > 1000 then return ids end
        end
      end
      low = '[' .. line .. '\v'
    end
    return ids
  end

  -- Return the first entry of a line whose task may start a job, and the state of that task; hold the jobs before it.
  local function first_allowed(line, level)
    while true do
      local entry, id = first(line)
      local record = entry and redis.call('HGET', jobs, id)
      local task = record and task_limits.of(record)
      local state = task and task_limits.load(task)
      if not state then return entry end
      local room, at_ms = task_limits.room(state)
      if room > 0 then return entry, state end
      if at_ms then task_limits.next_ms = math.min(task_limits.next_ms or at_ms, at_ms) end
      remove_from_group_queue(entry, id)
      hold(level, task, id, string.match(entry, '\n(%S+) '))
      passed_over = passed_over + 1
      if passed_over > 1000 then return nil end
    end
  end

  -- Take the first job of a group, if its task and its group may start it, and add its id. Return 0; or when the group's
  -- rate allows the job (ms), nil at the group's concurrency limit; and the first entry of the group, if one remains.
  -- `entry`: the first entry, if the caller has read it.
  function take_first(level, group, ids, entry)
    local line, state = 'g ' .. level .. ' ' .. group, nil
    if queue.limited then
      entry, state = first_allowed(line, level)
    else
      entry = entry or first(line)
    end
    local at = entry and (suspects_turn(group) or next_turn(group))
    if at ~= 0 then return at, entry end
    local id = string.match(entry, ' ([^ ]+)$')
    remove_from_group_queue(entry, id)
    if redis.call('HEXISTS', jobs, id) == 1 then -- else an operator deleted it with redis-cli
      redis.call('HINCRBY', groups, 'n ' .. group, 1)
      ids[#ids + 1] = id
      if state then state.pending = state.pending + 1 end
    end
    return 0
  end

  -- Take up to `want` jobs of this level's groups, one job per group and round. Return also whether groups remain unread.
  function take_turns(level, want)
    local ids, round = {}, rounds[1 + level]
    while #ids < want do
      local group = redis.call('LPOP', round)
      if not group then break end
      local at = take_first(level, group, ids)
      if (at == 0 or passed_over > 1000) and first('g ' .. level .. ' ' .. group) then
        redis.call('RPUSH', round, group)
      else
        redis.call('HDEL', groups, 'r ' .. level .. ' ' .. group)
        if at and at > 0 then redis.call('ZADD', throttled, at, level .. ' ' .. group) end
        passed_over = passed_over + 1
      end
      if passed_over > 1000 then break end -- a later call continues: skipped groups have left the round
    end
    return ids, passed_over > 1000
  end

  -- Return groups whose rate allows a job to the round-robin, and delete rates that are unused again.
  function wake_throttled()
    local now_ms = math.floor(now / 1000)
    for _ = 1, 100 do
      -- its throttle time is more than a period away: the clock was set back
      local last, at = unpack(redis.call('ZRANGE', throttled, -1, -1, 'WITHSCORES'))
      local level, group = string.match(last or '', '^(%d) (.*)$')
      local per = level and tonumber(string.match(redis.call('HGET', groups, 'l ' .. group) or '', '(%d+)$') or 0)
      if not per or at - now_ms <= per + 1 then break end
      redis.call('ZREM', throttled, last)
      if first('g ' .. level .. ' ' .. group) then enter_round(level, group) end
    end
    local awake = redis.call('ZRANGEBYSCORE', throttled, 0, now_ms, 'LIMIT', 0, 100)
    for _, entry in ipairs(awake) do
      local level, group = string.match(entry, '^(%d) (.*)$')
      if first('g ' .. level .. ' ' .. group) then enter_round(level, group) end
    end
    if #awake > 0 then redis.call('ZREM', throttled, unpack(awake)) end
    local unused = redis.call('ZRANGEBYSCORE', throttled, -now_ms, '(0', 'LIMIT', 0, 100)
    if #unused == 0 then return end
    redis.call('ZREM', throttled, unpack(unused))
    for _, entry in ipairs(unused) do tidy(string.sub(entry, 3)) end
  end
end
