-- How long the keys of locks, permits and runs last. Deadlines decide; the expiry only collects garbage.
-- include: now
local WAITER = 15000 -- ms that a waiter's place lasts unless its process asks again, and that waiters for a run may be late
local MARGIN = 60000 -- ms that a key outlives what it is needed for

-- Let a key last until a moment, us, and long enough for its waiters.
local function outlive(key, moment)
  redis.call('PEXPIRE', key, math.max(math.ceil((moment - now) / 1000), WAITER) + MARGIN)
end
