-- Renews many runs in one step; a lost run is not renewed.
-- KEYS: onces*
-- ARGV: (owner, fence, lease)
--   of each run; lease: ms
-- Out of memory: goes on
-- Reply: per key the new deadline us, or 0 when the run has ended, or an error's text; last, now us
-- Invariants: only the owner's deadline changes, and only to a later one
-- include: now
-- include: lifetimes
-- include: alone
local reply = {}
for index, once in ipairs(onces) do
  local at = FIRST + (index - 1) * STRIDE
  local owner, fence, lease = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
  local problem = alone(function()
    local state, runner, held_fence, deadline, ends, held_lease = unpack(redis.call('HMGET', once, 's', 'o', 'f', 'd', 'e', 'l'))
    deadline = tonumber(deadline or 0)
    if state == 'r' and runner == owner and held_fence == fence and deadline > now then
      if held_lease then deadline = math.min(deadline, now + held_lease * 1000) end -- see synchronizers/parts/once.lua
      if now + lease * 1000 >= deadline then
        deadline = now + lease * 1000
        redis.call('HSET', once, 'l', lease)
      end
      redis.call('HSET', once, 'd', deadline)
      local last = math.max(deadline, tonumber(ends), tonumber(held_fence))
      outlive(once, last + WAITER_MS * 1000)
      reply[index] = deadline
    else
      reply[index] = 0
    end
  end)
  if problem then reply[index] = problem end
end
reply[#reply + 1] = now
return reply
