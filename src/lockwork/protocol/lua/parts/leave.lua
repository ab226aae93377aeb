-- Ending a job that waits. The keys are named by the script that includes this, as for finish, and: notes, expiry, withdrawn

-- Take a job out that is due later, or in a ready list, and return its outcome. A list keeps the id: finding it there
-- would take long. The id is noted as void, and skipped when its turn comes.
local function withdraw(id, record, letter)
  local outcome = ending(letter, redis.call('HGET', tries, id), record)
  redis.call('HDEL', jobs, id)
  redis.call('HDEL', tries, id)
  redis.call('HDEL', notes, id)
  redis.call('ZREM', expiry, id)
  if redis.call('ZREM', due, id) == 0 then redis.call('SADD', withdrawn, id) end
  return outcome
end
