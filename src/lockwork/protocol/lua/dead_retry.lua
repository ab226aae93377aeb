-- Makes dead jobs ready to run again; those that are not dead any more, or died again since they were looked at, are left alone.
-- KEYS: jobs, ready:0, ready:1, ready:2, due, idle, stats, results:0, results:1, tries, dead, errors, books,
--   log of this operation
-- ARGV: step, 1 for attempts to begin anew, then for each job: id, its time in the dead set as it was read ('': whatever it is)
-- Reply: {how many were dealt with, how many will run}; the rest is for the next call
-- Invariants: a job is in one place before and after; its old outcome is gone, so that nobody takes it for the new one;
--   one whose record is lost stays dead, and so does one whose unique name another job has
-- include: now
-- include: step
-- include: push
touch('HLEN', 8, 10)
touch('ZCARD', 11, 11)
touch('HLEN', 12, 13)
local tries, dead, errors, books = KEYS[10], KEYS[11], KEYS[12], KEYS[13]
-- include: names
redis.call('HDEL', KEYS[1], '') -- a script that has deleted may go on writing when the server is out of memory
local looked, ids, bytes = 0, {}, 0
for at = 3, #ARGV, 2 do
  if bytes > BYTES then break end
  looked = looked + 1
  local id = ARGV[at]
  local died = redis.call('ZSCORE', dead, id)
  local record = died and (ARGV[at + 1] == '' or ARGV[at + 1] == died) and redis.call('HGET', jobs, id)
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
  redis.call('HDEL', KEYS[8], unpack(ids))
  redis.call('HDEL', KEYS[9], unpack(ids))
  if ARGV[2] == '1' then redis.call('HDEL', tries, unpack(ids)) end
  redis.call('HINCRBY', stats, 'revived', #ids)
  wake(#ids)
end
return keep({looked, #ids})
