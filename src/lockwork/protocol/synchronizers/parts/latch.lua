-- A latch's hash: c count, n remaining count, e end of its lifetime (us), g round, o newest round that has opened; k
-- log in use, x since when (us); w<channel> = end of a waiting process's place (us), a space and its secret; q, z
-- requests of the last resets and of the last calls at zero.
-- logs: request -> remaining count after it, of this round, of the round before, and of a minute at least, so that a
-- repeated call counts once.
-- Codes: other_count=-1
-- KEYS: latch, logs*2: hash
-- include: now
local PLACE_MS = 15000 -- a process is notified within this time of its last call
local MARGIN_MS = 60000 -- a key outlives its last use by this time; a log is in use for the same time
local count, remaining, ends_us, round, opened_round, log_in_use, log_since_us =
  unpack(redis.call('HMGET', latch, 'c', 'n', 'e', 'g', 'o', 'k', 'x'))
count, remaining, ends_us = tonumber(count or 0), tonumber(remaining or 0), tonumber(ends_us or 0)
round, opened_round, log_in_use = tonumber(round or 0), tonumber(opened_round or 0), tonumber(log_in_use or 1)

local function extend_lifetime(ttl)
  ends_us = now + ttl * 1000
  redis.call('HSET', latch, 'e', ends_us)
  for _, key in ipairs({latch, unpack(logs)}) do redis.call('PEXPIRE', key, math.max(ttl, PLACE_MS) + MARGIN_MS) end
end

-- Begin a round with a number higher than all before, even if the latch had expired in between.
local function begin_round(size, ttl)
  count, remaining, round = size, size, math.max(round + 1, now)
  local since_us = tonumber(log_since_us or 0)
  if now - since_us >= MARGIN_MS * 1000 or since_us > now + MARGIN_MS * 1000 then -- or the clock was set back
    log_in_use = 1 - log_in_use
    redis.call('UNLINK', logs[1 + log_in_use])
    redis.call('HSET', latch, 'k', log_in_use, 'x', now)
  end
  redis.call('HSET', latch, 'c', count, 'n', remaining, 'g', round)
  extend_lifetime(ttl)
end

-- Create the latch with the caller's count unless it exists; return false if it has another count.
local function has_count(size, ttl)
  if ends_us <= now then begin_round(size, ttl) end
  return count == size
end

-- include: requests
