-- Renews many grants in one step; a lapsed grant is not revived, its waiters come first.
-- KEYS: locks*
-- ARGV: (owner, fence, lease)
--   of each lock; lease: ms
-- Out of memory: goes on
-- Reply: per key the new deadline us, or 0 when the grant is over, or an error's text; last, now us
-- Invariants: a deadline only grows, and only its owner's; but none lies further ahead than its own length
-- include: now
-- include: lifetimes
-- include: alone
local reply = {}
for index, lock in ipairs(locks) do
  local at = FIRST + (index - 1) * STRIDE
  local owner, fence, lease = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
  local problem = alone(function()
    local held = redis.call('HMGET', lock, 'o', 'f', 'd', 'l')
    local deadline = tonumber(held[3] or 0)
    if held[1] == owner and held[2] == fence and deadline > now then
      -- one that was set at most so long ago lies no further ahead, unless the clock was set back since
      local length = tonumber(held[4] or nil) or math.ceil((deadline - now) / 1000)
      deadline = math.min(deadline, now + length * 1000)
      if now + lease * 1000 >= deadline then deadline, length = now + lease * 1000, lease end
      redis.call('HSET', lock, 'd', deadline, 'l', length)
      outlive(lock, math.max(deadline, tonumber(held[2])))
      reply[index] = deadline
    else
      reply[index] = 0
    end
  end)
  if problem then reply[index] = problem end
end
reply[#reply + 1] = now
return reply
