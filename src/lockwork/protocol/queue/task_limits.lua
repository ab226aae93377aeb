-- Reads the limits of tasks, and their use.
-- Flags: no-writes
-- KEYS: jobs, stats, groups, group_queue
-- Reply: {now ms, then per task: task, its state as in queue/parts/task_limits.lua or '', number of held jobs}
-- include: now
local reply, known = {math.floor(now / 1000)}, {}
for _, task in string.gmatch(redis.call('HGET', stats, 'limited') or '', '(%S+) (%S+)') do
  if not known[task] then
    known[task] = true
    local held = 0
    for level = 0, 9 do
      local line = 't ' .. level .. ' ' .. task
      held = held + redis.call('ZLEXCOUNT', group_queue, '[' .. line .. '\n', '(' .. line .. '\v')
    end
    for _, part in ipairs({task, redis.call('HGET', groups, 'T ' .. task) or '', held}) do reply[#reply + 1] = part end
  end
end
return reply
