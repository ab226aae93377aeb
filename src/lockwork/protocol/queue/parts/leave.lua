-- Ending waiting jobs.
-- KEYS: jobs, due, tries, job_notes, expiry, void, <queue/suspects>, <history/history>
-- include: queue/push
-- include: queue/finish
-- include: queue/groups
-- include: queue/suspects

-- Remove a waiting job from its place. A ready list keeps the id, because a search in the list is slow. The id is
-- marked void, and skipped later.
local function remove_waiting(id, record)
  local waited = redis.call('ZREM', due, id) == 1 or clear_suspect(id)
  unpark({id}, true)
  if not plain(record) then
    leave_group_queue(id, record)
    wake(1) -- another job may have received its key
  elseif not waited and not task_limits.leave(id, record) then
    redis.call('SADD', void, id)
  end
end

-- End a waiting job, and return its outcome.
local function end_waiting(id, record, letter)
  local tried = redis.call('HGET', tries, id)
  local outcome = ending(letter, tried, record)
  keep_ended(id, letter, tried or '0', record, '')
  forget_timelines({id})
  redis.call('HDEL', jobs, id)
  redis.call('HDEL', tries, id)
  redis.call('HDEL', job_notes, id)
  redis.call('ZREM', expiry, id)
  if not plain(record) then free_name(id, record) end
  remove_waiting(id, record)
  return outcome
end
