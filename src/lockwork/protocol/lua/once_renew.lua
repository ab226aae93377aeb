-- Renews many runs in one step; a lapsed one is not revived.
-- KEYS: once, one or more
-- ARGV: owner, fence, lease ms; three for each key
-- Reply: per key the new deadline us, or 0 when the run is over, or an error's text; last, now us
-- Invariants: a deadline only grows, and only its owner's
-- include: now
-- include: alone
redis.pcall('HDEL', KEYS[1], '') -- a script that has deleted may go on writing when the server is out of memory
local reply = {}
for index, once in ipairs(KEYS) do
  local at = 3 * index - 2
  local problem = alone(function()
    local held = redis.call('HMGET', once, 's', 'o', 'f', 'd', 'e', 'l')
    local deadline = tonumber(held[4] or 0)
    if held[1] == 'r' and held[2] == ARGV[at] and held[3] == ARGV[at + 1] and deadline > now then
      if held[6] then deadline = math.min(deadline, now + held[6] * 1000) end -- as in once.lua
      local lease = tonumber(ARGV[at + 2])
      if now + lease * 1000 >= deadline then
        deadline = now + lease * 1000
        redis.call('HSET', once, 'l', lease)
      end
      redis.call('HSET', once, 'd', deadline)
      local last = math.max(deadline, tonumber(held[5]), tonumber(held[3]))
      redis.call('PEXPIRE', once, math.ceil((last - now) / 1000) + 75000) -- as keep() in once.lua
      reply[index] = deadline
    else
      reply[index] = 0
    end
  end)
  if problem then reply[index] = problem end
end
reply[#reply + 1] = now
return reply
