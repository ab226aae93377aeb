-- Shared code of the scripts that handle a single job.
-- KEYS: <queue/push>, <queue/finish>, <queue/groups>, <queue/suspects>, job_notes: hash, expiry: zset, void: set, long_results: hash, workers: zset, flows: hash
-- include: queue/push
-- include: queue/finish
-- include: queue/groups
-- include: queue/leave
-- include: flows/ended
-- include: flows/waits

local function schedule(id, wait)
  redis.call('ZADD', due, moment(wait), id)
  if redis.call('ZRANK', due, id) == 0 then wake(1) end
end

-- Let a job run as soon as its key and group allow. It is in no place, or its id is void in its ready list.
local function enqueue_again(id, record)
  if not plain(record) then return schedule(id, 0) end
  -- a void id becomes valid again at its old place
  if redis.call('SREM', void, id) == 0 then redis.call('RPUSH', ready_key(record), id) end
  wake(1)
end
