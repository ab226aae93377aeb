-- A delay queue. entries: id -> due time, us. waiters: requests by arrival, us. state: w<request> a waiter (MessagePack
-- [channel, end of its place us, arrival us]); k log in use, x since when (us), c its size. logs: request -> its
-- result, so that a repeated call does nothing more.
-- KEYS: entries: zset, waiters: zset, state, logs*2: hash
-- include: now
-- include: publish
local RETENTION_MS = 60000 -- a log is in use for this time, and then retained for it
local MOST_LOGGED = 50000 -- entries in a log before the next log is used
local PLACE_MS = 15000 -- lifetime of a waiter's place unless its process calls again
local CHECK_MS = 5000 -- longest interval between a waiter's checks without a message
local log_in_use, log_since_us, logged = unpack(redis.call('HMGET', state, 'k', 'x', 'c'))
log_in_use, log_since_us, logged = tonumber(log_in_use or 0), tonumber(log_since_us or 0), tonumber(logged or 0)

-- Return the result of a request that was applied before.
local function earlier_result(request)
  for _, log in ipairs(logs) do
    local result = redis.call('HGET', log, request)
    if result then return result end
  end
  return false
end

-- Store the result of a request; `size` counts against the log's limit.
local function remember(request, result, size)
  if now - log_since_us >= RETENTION_MS * 1000 or log_since_us > now + RETENTION_MS * 1000 or logged >= MOST_LOGGED then
    log_in_use, log_since_us, logged = 1 - log_in_use, now, 0
    redis.call('UNLINK', logs[1 + log_in_use])
  end
  logged = logged + size
  redis.call('HSET', logs[1 + log_in_use], request, result)
  redis.call('HSET', state, 'k', log_in_use, 'x', log_since_us, 'c', logged)
  for _, key in ipairs({state, unpack(logs)}) do redis.call('PEXPIRE', key, 2 * RETENTION_MS) end
end

local function read_waiter(request)
  local packed = redis.call('HGET', state, 'w' .. request)
  if not packed then return nil end
  local channel, ends_at_us, since_us = unpack(cmsgpack.unpack(packed))
  return {channel = channel, ends_at_us = ends_at_us, since_us = since_us}
end

local function write_waiter(request, waiter)
  redis.call('HSET', state, 'w' .. request, cmsgpack.pack({waiter.channel, waiter.ends_at_us, waiter.since_us}))
end

-- Remove a waiter; return true if there was one.
local function remove_waiter(request)
  local removed = redis.call('ZREM', waiters, request)
  return redis.call('HDEL', state, 'w' .. request) + removed > 0
end

-- Notify up to `count` of the first waiters to call. A notified waiter leaves the order, and gets its place back when
-- it calls. Waiters whose process is not subscribed keep their places until these end, and do not count.
local function notify_waiters(count)
  local skipped = 0
  while count > 0 and skipped < 1000 do
    local requests = redis.call('ZRANGE', waiters, skipped, skipped + math.min(count, 100) - 1)
    if #requests == 0 then return end
    for _, request in ipairs(requests) do
      local waiter = read_waiter(request)
      if not waiter then
        redis.call('ZREM', waiters, request)
      elseif notify(waiter.channel, request) == 1 then
        redis.call('ZREM', waiters, request)
        count = count - 1
      elseif waiter.ends_at_us <= now then
        remove_waiter(request)
      else
        skipped = skipped + 1
      end
    end
  end
end
