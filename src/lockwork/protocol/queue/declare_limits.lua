-- Declares the limits of tasks, which replace their former limits.
-- KEYS: jobs, idle_workers, stats, groups, group_queue
-- ARGV: (task, limits, names)
--   limits: as in queue/parts/task_limits.lua; '' for none; names: of the task and its aliases, separated by spaces
-- Indexed: stats
-- Reply: number of tasks whose limits have changed
-- Invariants: running jobs, used rates and pauses stay; held jobs of a task without limits start in their order
-- include: now
-- include: queue/limits
-- include: queue/wake
-- include: queue/task_limits
local changes = 0
for at = FIRST, #ARGV, STRIDE do
  local task, limits, names = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local state = task_limits.load(task)
  local listed = ''
  for name in string.gmatch(names, '%S+') do listed = listed .. name .. ' ' .. task .. '\n' end
  local held = 0
  for level = 0, queue.numbered and 9 or 2 do
    held = held + #redis.call('ZRANGEBYLEX', group_queue, '[t ' .. level .. ' ' .. task .. '\n', '(t ' .. level .. ' ' .. task .. '\v', 'LIMIT', 0, 1)
  end
  task_limits.unlist(task)
  state.listed = limits ~= '' or held > 0
  if state.listed then
    queue.limited = (queue.limited or '\n') .. listed
    redis.call('HSET', stats, 'limited', queue.limited)
  end
  if state.limits ~= limits then
    changes = changes + 1
    task_limits.parse(state, limits)
    if state.pause == 0 then task_limits.pause(state, 0) end
    state.changed = true
  end
end
task_limits.save()
if changes > 0 then wake(500) end
return changes
