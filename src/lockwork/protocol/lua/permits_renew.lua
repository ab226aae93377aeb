-- Renews many grants in one step; a lapsed grant is not revived, its waiters come first.
-- KEYS: all_permits*
-- ARGV: (owner, fence, lease)
--   of each; lease: ms
-- Out of memory: goes on
-- Reply: per key the new deadline us, or 0 when the grant is over, or an error's text; last, now us
-- Invariants: a deadline only grows, and only its owner's
-- include: now
-- include: lifetimes
-- include: alone
local reply = {}
for index, permits in ipairs(all_permits) do
  local at = FIRST + (index - 1) * STRIDE
  local owner, fence, lease = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local problem = alone(function()
    local found = redis.call('HMGET', permits, 'g' .. fence, 'e', 'c', 'z')
    local ahead = math.max(tonumber(found[4] or 0), tonumber(found[3] or 0) - now) -- as in permits.lua
    local today = now + ahead
    local held = found[1] and cmsgpack.unpack(found[1])
    if held and held[2] == owner and held[1] > today then
      held[1] = math.max(held[1], today + lease * 1000)
      held[6] = nil -- it is claimed
      local latest = math.max(tonumber(found[2]), held[1])
      -- its key in the heap stays behind: the next script that meets it there puts it where it belongs
      redis.call('HSET', permits, 'g' .. fence, cmsgpack.pack(held), 'e', latest, 'c', today, 'z', ahead)
      outlive(permits, latest)
      reply[index] = held[1] - ahead
    else
      reply[index] = 0
    end
  end)
  if problem then reply[index] = problem end
end
reply[#reply + 1] = now
return reply
