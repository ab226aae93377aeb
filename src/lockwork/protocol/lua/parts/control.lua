-- What the scripts that handle a single job share.
-- KEYS: <push>, <finish>, <lines>, notes: hash, expiry: zset, withdrawn: set, kept: hash, workers: zset, flows: hash
-- include: push
-- include: finish
-- include: lines
-- include: leave
-- include: flows
-- include: flow_waits

local function schedule(id, wait)
  redis.call('ZADD', due, moment(wait), id)
  if redis.call('ZRANK', due, id) == 0 then wake(1) end
end

-- Let a job that stands nowhere, or whose id stands in its ready list as void, run as soon as it may.
local function line_up(id, record)
  if not plain(record) then return schedule(id, 0) end
  -- where it is void, it takes that place again
  if redis.call('SREM', withdrawn, id) == 0 then redis.call('RPUSH', ready_key(record), id) end
  wake(1)
end
