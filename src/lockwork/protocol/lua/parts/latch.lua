-- A latch, one hash: c count, n how much of it is left, e when it is forgotten (us), g its round, o the newest round that has
-- opened; k which of the two logs is written, x since when (us); w<channel> = end of a waiting process's place, us, a space and its secret; q, z the
-- requests of the last resets and of the last calls that found it open. The logs: request -> what was left after it, for this
-- round, the one before, and a minute at least, so that a call that is sent again counts once.
-- KEYS: latch, logs*2: hash
-- include: now
local PLACE = 15000 -- ms that a process is woken unless it asks again
local MARGIN = 60000 -- ms that a key outlives what it is needed for, and that a log is written
local found = redis.call('HMGET', latch, 'c', 'n', 'e', 'g', 'o', 'k', 'x')
local count, left, ends = tonumber(found[1] or 0), tonumber(found[2] or 0), tonumber(found[3] or 0)
local round, opened, turn = tonumber(found[4] or 0), tonumber(found[5] or 0), tonumber(found[6] or 1)

local function keep(ttl)
  ends = now + ttl * 1000
  redis.call('HSET', latch, 'e', ends)
  for _, key in ipairs({latch, logs[1], logs[2]}) do redis.call('PEXPIRE', key, math.max(ttl, PLACE) + MARGIN) end
end

-- Begin a round: its number is higher than any before, also when the latch was forgotten in between.
local function begin(size, ttl)
  count, left, round = size, size, math.max(round + 1, now)
  local since = tonumber(found[7] or 0)
  if now - since >= MARGIN * 1000 or since > now + MARGIN * 1000 then -- or the clock was set back
    turn = 1 - turn
    redis.call('UNLINK', logs[1 + turn])
    redis.call('HSET', latch, 'k', turn, 'x', now)
  end
  redis.call('HSET', latch, 'c', count, 'n', left, 'g', round)
  keep(ttl)
end

-- The first call opens it with the caller's count; false when it is open with another one.
local function opened_with(size, ttl)
  if ends <= now then begin(size, ttl) end
  return count == size
end

-- include: requests
