-- Renews many grants in one step; a lapsed grant is not revived, its waiters come first.
-- KEYS: lock, one or more
-- ARGV: owner, fence, lease ms; three for each key
-- Reply: per key the new deadline us, or 0 when the grant is over, or an error's text; last, now us
-- Invariants: a deadline only grows, and only its owner's; but none lies further ahead than its own length
-- include: now
-- include: alone
redis.pcall('HDEL', KEYS[1], '') -- a script that has deleted may go on writing when the server is out of memory
local reply = {}
for index, lock in ipairs(KEYS) do
  local at = 3 * index - 2
  local problem = alone(function()
    local held = redis.call('HMGET', lock, 'o', 'f', 'd', 'l')
    local deadline = tonumber(held[3] or 0)
    if held[1] == ARGV[at] and held[2] == ARGV[at + 1] and deadline > now then
      -- one that was set at most so long ago lies no further ahead, unless the clock was set back since
      local length = tonumber(held[4] or nil) or math.ceil((deadline - now) / 1000)
      deadline = math.min(deadline, now + length * 1000)
      local lease = tonumber(ARGV[at + 2])
      if now + lease * 1000 >= deadline then deadline, length = now + lease * 1000, lease end
      redis.call('HSET', lock, 'd', deadline, 'l', length)
      local needed = math.max(deadline, tonumber(held[2]))
      redis.call('PEXPIRE', lock, math.max(math.ceil((needed - now) / 1000), 15000) + 60000) -- as keep() in line.lua
      reply[index] = deadline
    else
      reply[index] = 0
    end
  end)
  if problem then reply[index] = problem end
end
reply[#reply + 1] = now
return reply
