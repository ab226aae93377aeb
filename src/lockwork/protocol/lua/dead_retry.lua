-- Makes dead jobs ready to run again; those that are not dead any more, or died again since they were looked at, are left alone.
-- KEYS: <push>, tries: hash, dead: zset, errors: hash, groups: hash, results*2: hash; log
-- ARGV: step: number, anew: flag, (id, died)
--   anew: attempts begin anew; died: its time in the dead set as it was read ('': whatever it is)
-- Out of memory: goes on
-- Reply: {how many were dealt with, how many will run}; the rest is for the next call
-- Invariants: a job is in one place before and after; its old outcome is gone, so that no caller takes it for the new one;
--   one whose record is lost stays dead, and so does one whose unique name another job has
-- include: now
-- include: step
-- include: push
-- include: unique_names
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
    if plain(record) then
      redis.call('RPUSH', ready_key(record), id)
    else
      redis.call('ZADD', due, math.floor(now / 1000), id) -- it is admitted where due jobs are
    end
    ids[#ids + 1] = id
  end
end
if #ids > 0 then
  redis.call('HDEL', errors, unpack(ids))
  redis.call('HDEL', results[1], unpack(ids))
  redis.call('HDEL', results[2], unpack(ids))
  if anew then redis.call('HDEL', tries, unpack(ids)) end
  redis.call('HINCRBY', stats, 'revived', #ids)
  wake(#ids)
end
return keep({looked, #ids})
