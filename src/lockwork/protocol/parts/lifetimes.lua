-- How long the keys of locks, permits and runs last. Deadlines decide; the expiry only deletes unused keys.
-- include: now
local WAITER_MS = 15000 -- lifetime of a waiter's place unless its process calls again, and the longest delay of a waiter for a run
local MARGIN_MS = 60000 -- a key outlives its last use by this time

-- Expire a key after a moment (us), but not before its waiters.
local function outlive(key, moment)
  redis.call('PEXPIRE', key, math.max(math.ceil((moment - now) / 1000), WAITER_MS) + MARGIN_MS)
end
