-- What the scripts that handle a single job share.
-- KEYS: <push>, <finish>, <groups>, job_notes: hash, expiry: zset, void: set, long_results: hash, workers: zset, flows: hash
-- include: push
-- include: finish
-- include: groups
-- include: leave
-- include: flows
-- include: flow_waits

local function schedule(id, wait)
  redis.call('ZADD', due, moment(wait), id)
  if redis.call('ZRANK', due, id) == 0 then wake(1) end
end

-- Let a job that is in no place, or whose id is void in its ready list, run as soon as it may.
local function enqueue_again(id, record)
  if not plain(record) then return schedule(id, 0) end
  -- where it is void, it takes that place again
  if redis.call('SREM', void, id) == 0 then redis.call('RPUSH', ready_key(record), id) end
  wake(1)
end
