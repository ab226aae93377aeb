-- Renews many grants in one step; an expired grant is not renewed, because its waiters come first.
-- KEYS: locks*
-- ARGV: (owner, fence, lease)
--   of each lock; lease: ms
-- Out of memory: goes on
-- Reply: per key the new deadline us, or 0 if the grant has ended, or an error's text; last, now us
-- Invariants: only the owner's deadline changes, and only to a later one; but no deadline is further ahead than its own
--   lease
-- include: now
-- include: locks/expiry
-- include: alone
local reply = {}
for index, lock in ipairs(locks) do
  local at = FIRST + (index - 1) * STRIDE
  local owner, fence, lease = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
  local problem = alone(function()
    local holder, held_fence, deadline, held_lease = unpack(redis.call('HMGET', lock, 'o', 'f', 'd', 'l'))
    deadline = tonumber(deadline or 0)
    if holder == owner and held_fence == fence and deadline > now then
      -- a deadline is at most its lease ahead, unless the clock was set back
      held_lease = tonumber(held_lease or nil) or math.ceil((deadline - now) / 1000)
      deadline = math.min(deadline, now + held_lease * 1000)
      if now + lease * 1000 >= deadline then deadline, held_lease = now + lease * 1000, lease end
      redis.call('HSET', lock, 'd', deadline, 'l', held_lease)
      outlive(lock, math.max(deadline, tonumber(held_fence), now + held_lease * 1000))
      reply[index] = deadline
    else
      reply[index] = 0
    end
  end)
  if problem then reply[index] = problem end
end
reply[#reply + 1] = now
return reply
