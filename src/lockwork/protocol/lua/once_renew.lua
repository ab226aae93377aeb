-- Renews many runs in one step; a lapsed one is not revived.
-- KEYS: onces*
-- ARGV: (owner, fence, lease)
--   of each run; lease: ms
-- Out of memory: goes on
-- Reply: per key the new deadline us, or 0 when the run is over, or an error's text; last, now us
-- Invariants: a deadline only grows, and only its owner's
-- include: now
-- include: lifetimes
-- include: alone
local reply = {}
for index, once in ipairs(onces) do
  local at = FIRST + (index - 1) * STRIDE
  local owner, fence, lease = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
  local problem = alone(function()
    local held = redis.call('HMGET', once, 's', 'o', 'f', 'd', 'e', 'l')
    local deadline = tonumber(held[4] or 0)
    if held[1] == 'r' and held[2] == owner and held[3] == fence and deadline > now then
      if held[6] then deadline = math.min(deadline, now + held[6] * 1000) end -- as in once.lua
      if now + lease * 1000 >= deadline then
        deadline = now + lease * 1000
        redis.call('HSET', once, 'l', lease)
      end
      redis.call('HSET', once, 'd', deadline)
      local last = math.max(deadline, tonumber(held[5]), tonumber(held[3]))
      outlive(once, last + WAITER * 1000)
      reply[index] = deadline
    else
      reply[index] = 0
    end
  end)
  if problem then reply[index] = problem end
end
reply[#reply + 1] = now
return reply
