-- Ends the pause of a task.
-- KEYS: jobs, idle_workers, stats, groups
-- ARGV: task
-- Reply: 1 if the task was paused, else 0
-- Invariants: the other limits stay
-- include: now
-- include: queue/limits
-- include: queue/wake
-- include: queue/task_limits
local state = task_limits.load(task)
if state.paused == 0 then return 0 end
task_limits.pause(state, 0)
state.listed = true
task_limits.save()
wake(500)
return 1
