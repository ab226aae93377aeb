-- A delay queue. The entries: id -> when it is due, us. The waiters: requests by when they came, us.
-- The state, a hash: w<request> = {channel, end of its place us, when it came us}; k which of the two logs is written, x since
-- when (us), c how much is in it. The logs: request -> what it did, so that a call that is sent again does nothing more.
-- KEYS: entries: zset, waiters: zset, state, logs*2: hash
-- include: now
-- include: publish
local KEPT = 60000 -- ms that a log is written; then it is kept for as long
local MANY = 50000 -- entries in a log, after which it is kept no longer, whatever its age
local PLACE = 15000 -- ms that a waiter's place lasts unless its process asks again
local LOOK = 5000 -- ms after which every waiter looks again without a message
local log = redis.call('HMGET', state, 'k', 'x', 'c')

local function known(request)
  return redis.call('HGET', logs[1], request) or redis.call('HGET', logs[2], request)
end

-- Remember what a request did; `size` says how much room that takes.
local function remember(request, done, size)
  local turn, since, count = tonumber(log[1] or 0), tonumber(log[2] or 0), tonumber(log[3] or 0)
  if now - since >= KEPT * 1000 or since > now + KEPT * 1000 or count >= MANY then
    turn, since, count = 1 - turn, now, 0
    redis.call('UNLINK', logs[1 + turn])
  end
  redis.call('HSET', logs[1 + turn], request, done)
  redis.call('HSET', state, 'k', turn, 'x', since, 'c', count + size)
  for _, key in ipairs({state, logs[1], logs[2]}) do redis.call('PEXPIRE', key, 2 * KEPT) end
end

local function leave(request)
  local stood = redis.call('ZREM', waiters, request)
  return redis.call('HDEL', state, 'w' .. request) + stood > 0
end

-- Notify up to `count` of the first waiters to look. A notified one is removed, and keeps the right to its place.
-- Those whose process does not listen keep their place, too, for as long as that lasts, and do not count.
local function wake(count)
  local passed = 0
  while count > 0 and passed < 1000 do
    local waiting = redis.call('ZRANGE', waiters, passed, passed + math.min(count, 100) - 1)
    if #waiting == 0 then return end
    for _, request in ipairs(waiting) do
      local packed = redis.call('HGET', state, 'w' .. request)
      local place = packed and cmsgpack.unpack(packed)
      if not place then
        redis.call('ZREM', waiters, request)
      elseif tell(place[1], request) == 1 then
        redis.call('ZREM', waiters, request)
        count = count - 1
      elseif place[2] <= now then
        leave(request)
      else
        passed = passed + 1
      end
    end
  end
end
