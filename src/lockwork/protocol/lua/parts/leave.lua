-- Ending a job that waits.
-- KEYS: jobs, due, tries, notes, expiry, withdrawn
-- include: push
-- include: finish
-- include: lines

-- Take a job out of where it waits. A ready list keeps the id: finding it there would take long. It is noted as void,
-- and skipped when its turn comes.
local function take_out(id, record)
  local waited = redis.call('ZREM', due, id) == 1
  if not plain(record) then
    leave_lines(id, record)
    wake(1) -- its key may have gone to another
  elseif not waited then
    redis.call('SADD', withdrawn, id)
  end
end

-- End a job that waits, and return its outcome.
local function withdraw(id, record, letter)
  local outcome = ending(letter, redis.call('HGET', tries, id), record)
  redis.call('HDEL', jobs, id)
  redis.call('HDEL', tries, id)
  redis.call('HDEL', notes, id)
  redis.call('ZREM', expiry, id)
  if not plain(record) then free_name(id, record) end
  take_out(id, record)
  return outcome
end
