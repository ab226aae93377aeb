-- Limits of tasks, over all workers: how many jobs run at once, how many start per time, and the circuit breaker.
-- Workers declare them when they start (queue/declare_limits). A job that may not start yet is held in the group queue,
-- line `t LEVEL TASK` (queue/parts/groups.lua), so that it delays no job of another task.
--   stats: limited: `\nNAME TASK\nNAME TASK\n`: the tasks that have limits, by their names and aliases
--   groups: `T TASK`: MessagePack {limits, running jobs, the time (us) when its rate would be unused again, the end of
--     its pause (ms; 0: it is not paused), the job that probes or '', times (ms) of the last failures}
-- Limits: `jobs at once/jobs/per ms/failures/within ms/pause ms`; 0: no limit. After a pause, one job probes: its success
-- resumes the task, its failure pauses it again.
-- The token of a job that counts has `+TASK` after the attempts.
-- KEYS: jobs, stats, groups: hash
-- include: queue/limits
-- include: metrics/task_name
local task_limits = {states = {}, next_ms = nil}

-- Return the task with limits that runs this record, or nil.
function task_limits.of(record)
  if not queue.limited then return nil end
  local name = task_of(record)
  local at = string.find(queue.limited, '\n' .. name .. ' ', 1, true)
  return at and string.match(queue.limited, '^(%S+)', at + #name + 2)
end

-- Set the limits of a state.
function task_limits.parse(state, limits)
  local most, jobs, per, failures, window, pause = string.match(limits, '^(%d+)/(%d+)/(%d+)/(%d+)/(%d+)/(%d+)$')
  state.limits = limits
  state.most, state.jobs, state.per_us = tonumber(most or 0), tonumber(jobs or 0), (per or 0) * 1000
  state.most_failures, state.window, state.pause = tonumber(failures or 0), tonumber(window or 0), tonumber(pause or 0)
  -- after the clock was set back, or a period became shorter, wait at most one period
  local latest_us, latest_ms = now + state.per_us, math.floor(now / 1000) + state.pause
  if state.unused_at > latest_us then state.unused_at, state.changed = latest_us, true end
  if state.paused > latest_ms then state.paused, state.changed = latest_ms, true end
end

-- Return the state of a task. `pending`: jobs that this call has chosen, and not yet leased.
function task_limits.load(task)
  local state = task_limits.states[task]
  if state then return state end
  local packed = redis.call('HGET', groups, 'T ' .. task)
  local limits, running, unused_at, paused, probe, failures = unpack(packed and cmsgpack.unpack(packed) or {}, 1, 6)
  state = {
    running = running or 0, unused_at = unused_at or 0, paused = paused or 0, probe = probe or '', failures = failures or {}, pending = 0,
  }
  task_limits.parse(state, limits or '')
  task_limits.states[task] = state
  return state
end

-- Write the changed states.
function task_limits.save()
  for task, state in pairs(task_limits.states) do
    if state.changed and state.limits == '' and state.running == 0 and not state.listed then
      redis.call('HDEL', groups, 'T ' .. task)
    elseif state.changed then
      redis.call('HSET', groups, 'T ' .. task, cmsgpack.pack({
        state.limits, state.running, state.unused_at, state.paused, state.probe, state.failures
      }))
    end
    state.changed = false
  end
end

-- Return how many jobs of the task may start now. If none, also return when time alone allows the next (ms), if it does.
function task_limits.room(state)
  local room, now_ms = math.huge, math.floor(now / 1000)
  if state.paused > 0 then
    -- a job that was deleted by hand does not end
    if state.pending > 0 or (state.probe ~= '' and redis.call('HEXISTS', jobs, state.probe) == 1) then return 0 end
    if now_ms < state.paused then return 0, state.paused end
    room = 1
  end
  if state.most > 0 then room = math.min(room, state.most - state.running - state.pending) end
  if state.jobs > 0 and room > 0 then
    -- GCRA (generic cell rate algorithm), as for the rate of a queue
    local unused_at = math.max(state.unused_at, now)
    local free = math.floor((now + state.per_us - unused_at) * state.jobs / state.per_us) - state.pending
    if free < 1 then return 0, math.ceil((unused_at + state.per_us / state.jobs - state.per_us) / 1000) end
    room = math.min(room, free)
  end
  return math.max(0, room)
end

-- Count a leased job.
function task_limits.take(state, id)
  state.running = state.running + 1
  if state.jobs > 0 then
    state.unused_at = math.ceil(math.max(state.unused_at, now) + state.per_us / state.jobs)
  end
  if state.paused > 0 then state.probe = id end
  state.changed = true
end

-- Pause the task, or end its pause.
function task_limits.pause(state, ms)
  state.paused = ms > 0 and math.floor(now / 1000) + ms or 0
  state.probe, state.failures, state.changed = '', {}, true
end

-- Count a failure of a job of a task that is not paused.
function task_limits.count_failure(state)
  local now_ms, recent = math.floor(now / 1000), {}
  for _, at in ipairs(state.failures) do
    if at > now_ms - state.window and at <= now_ms then recent[#recent + 1] = at end
  end
  recent[#recent + 1] = now_ms
  state.failures = recent
  if #recent >= state.most_failures then task_limits.pause(state, state.pause) end
end

-- Count the end of a lease. `ended`: 's' for a success, 'f' for a failure, else nil. Return whether the job counted.
function task_limits.ended(token, id, ended)
  local task = string.match(token, '^[%d/]+%*?%+(%S+) ')
  if not task then return false end
  local state = task_limits.load(task)
  state.running, state.changed = math.max(0, state.running - 1), true
  if state.paused > 0 and state.probe == id then
    if ended == 's' then
      task_limits.pause(state, 0)
    elseif ended == 'f' then
      task_limits.pause(state, state.pause)
    else
      state.probe = '' -- another job probes
    end
  elseif state.paused == 0 and ended == 'f' and state.most_failures > 0 then
    task_limits.count_failure(state)
  end
  return true
end

-- Remove a task from the list.
function task_limits.unlist(task)
  local rest = '\n'
  for name, of in string.gmatch(queue.limited or '', '(%S+) (%S+)') do
    if of ~= task then rest = rest .. name .. ' ' .. of .. '\n' end
  end
  queue.limited = rest ~= '\n' and rest or false
  if queue.limited then redis.call('HSET', stats, 'limited', rest) else redis.call('HDEL', stats, 'limited') end
end

-- Forget tasks whose limits were removed, if the queue holds none of their jobs.
function task_limits.forget_unused()
  for task, state in pairs(task_limits.states) do
    if state.limits == '' then
      if task_limits.any_held() then state.listed = true else task_limits.unlist(task) end
    end
  end
end
