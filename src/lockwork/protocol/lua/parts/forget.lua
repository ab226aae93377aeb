-- Taking dead jobs away. The first keys are: dead, jobs, errors, tries, stats, notes
-- include: touch
local dead, jobs, errors, tries, stats = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
touch('ZCARD', 1, 1)
touch('HLEN', 2, 6)
local BYTES = 4194304 -- what one call frees, or a little more: a large record takes its time
redis.call('HDEL', KEYS[2], '') -- a script that has deleted may go on writing when the server is out of memory

-- How much would be freed with this job.
local function weight(id)
  return redis.call('HSTRLEN', jobs, id) + redis.call('HSTRLEN', errors, id)
end

local function forget(ids)
  if #ids == 0 then return end
  redis.call('ZREM', dead, unpack(ids))
  redis.call('HDEL', jobs, unpack(ids))
  redis.call('HDEL', errors, unpack(ids))
  redis.call('HDEL', tries, unpack(ids))
  redis.call('HDEL', KEYS[6], unpack(ids))
  redis.call('HINCRBY', stats, 'forgotten', #ids)
end
