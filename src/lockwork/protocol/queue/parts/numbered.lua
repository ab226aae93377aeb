-- Numbered levels of a queue with ten priorities: 3 to 6 come between high and normal, 7 to 9 between normal and low. Their
-- jobs are in the group queue, those without a group as the group ''. A list per level would be a further key of every
-- script, and an operator of an app that has no ten priorities any more would not see its jobs.
-- KEYS: jobs, stats, group_queue, groups, throttled
-- include: queue/groups

-- Return the first entry of a group of this level after `group`, and the group; without `group`, of the first group.
local function next_group(level, group)
  local from = group and '(g ' .. level .. ' ' .. group .. '\v' or '[g ' .. level .. ' '
  local entry = unpack(redis.call('ZRANGEBYLEX', group_queue, from, '(g ' .. level .. '!', 'LIMIT', 0, 1))
  return entry, entry and string.match(entry, '^g %d (%S*)\n')
end

-- Take up to `want` jobs of a numbered level, one job per group and round, and add their ids. The round continues after
-- the group that had the last turn, in the order of the names.
local function take_numbered(level, want, ids)
  local before, refused = redis.call('HGET', groups, 'c ' .. level), nil
  local last, turn = before, before
  while #ids < want and passed_over <= 1000 do
    local entry, group = next_group(level, last or nil)
    if not entry and last then entry, group = next_group(level) end
    if not entry or refused == group then break end -- no group of this round can run a job
    local at, remaining = take_first(level, group, ids, entry)
    if at == 0 then
      refused, turn = nil, group
    elseif remaining then -- else the limits of tasks hold all jobs of the group
      if at then redis.call('ZADD', throttled, at, level .. ' ' .. group) end
      refused = refused or group
      passed_over = passed_over + 1
    end
    last = group
  end
  if passed_over > 1000 then turn = last end -- the next call continues there
  if turn ~= before then redis.call('HSET', groups, 'c ' .. level, turn) end
end

-- Take up to `want` jobs of the numbered levels from `low` to `high`. Return also whether groups remain unread.
local function take_levels(low, high, want)
  local ids = {}
  while #ids < want and low <= high do
    -- `:` follows 9
    local entry = unpack(redis.call('ZRANGEBYLEX', group_queue, '[g ' .. low, '(g ' .. string.char(49 + high), 'LIMIT', 0, 1))
    if not entry then break end
    low = tonumber(string.sub(entry, 3, 3))
    take_numbered(low, want, ids)
    low = low + 1
  end
  return ids, passed_over > 1000
end
