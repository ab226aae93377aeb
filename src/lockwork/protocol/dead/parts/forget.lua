-- Taking dead jobs away.
-- KEYS: dead: zset, jobs: hash, errors: hash, tries: hash, stats: hash, job_notes: hash, timelines: hash
local BYTES = 4194304 -- what one call frees, or a little more: a large record takes its time

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
  redis.call('HDEL', job_notes, unpack(ids))
  redis.call('HDEL', timelines, unpack(ids))
  redis.call('HINCRBY', stats, 'forgotten', #ids)
end
