-- Ending a job that waits.
-- KEYS: jobs, due, tries, job_notes, expiry, void, <history>
-- include: push
-- include: finish
-- include: groups

-- Take a job out of where it waits. A ready list keeps the id: finding it there would take long. It is noted as void,
-- and skipped when its turn comes.
local function take_out(id, record)
  local waited = redis.call('ZREM', due, id) == 1
  if not plain(record) then
    leave_group_queue(id, record)
    wake(1) -- its key may have gone to another
  elseif not waited then
    redis.call('SADD', void, id)
  end
end

-- End a job that waits, and return its outcome.
local function withdraw(id, record, letter)
  local tried = redis.call('HGET', tries, id)
  local outcome = ending(letter, tried, record)
  keep_ended(id, letter, tried or '0', record, '')
  forget_timelines({id})
  redis.call('HDEL', jobs, id)
  redis.call('HDEL', tries, id)
  redis.call('HDEL', job_notes, id)
  redis.call('ZREM', expiry, id)
  if not plain(record) then free_name(id, record) end
  take_out(id, record)
  return outcome
end
