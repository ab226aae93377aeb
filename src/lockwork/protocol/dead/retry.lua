-- Retries dead jobs, except jobs that left the dead set, or died again, since the caller read them.
-- KEYS: <queue/push>, tries: hash, dead: zset, errors: hash, groups: hash, results*2: hash; log
-- ARGV: step: number, anew: flag, (id, died)
--   anew: reset attempts; died: its time in the dead set, as the caller read it ('': any)
-- Out of memory: goes on
-- Reply: {ids processed, jobs that will run}; the next call processes the other ids
-- Invariants: a job is in one place before and after; its old outcome is deleted, so that no caller reads it as the new
--   outcome; a job stays dead if its record is lost, or if another job has its unique name
-- include: now
-- include: step
-- include: queue/push
-- include: queue/unique_names
-- include: queue/retry_until
local looked, ids, bytes = 0, {}, 0
for at = FIRST, #ARGV, STRIDE do
  if bytes > BYTES then break end
  looked = looked + 1
  local id, read = ARGV[at], ARGV[at + 1]
  local died = redis.call('ZSCORE', dead, id)
  local record = died and (read == '' or read == died) and redis.call('HGET', jobs, id)
  bytes = bytes + (record and #record or 0)
  if record and (plain(record) or retake_name(id, record, dead)) then
    redis.call('ZREM', dead, id)
    local rest, limited = retry_until.drop(record)
    if limited then redis.call('HSET', jobs, id, rest) end
    if plain(record) then
      redis.call('RPUSH', ready_key(record), id)
    else
      redis.call('ZADD', due, math.floor(now / 1000), id) -- due jobs are admitted later
    end
    ids[#ids + 1] = id
  end
end
if #ids > 0 then
  redis.call('HDEL', errors, unpack(ids))
  redis.call('HDEL', newer_results, unpack(ids))
  redis.call('HDEL', older_results, unpack(ids))
  if anew then redis.call('HDEL', tries, unpack(ids)) end
  redis.call('HINCRBY', stats, 'revived', #ids)
  wake(#ids)
end
return keep({looked, #ids})
