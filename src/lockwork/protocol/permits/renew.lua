-- Renews many grants in one step; an expired grant is not renewed, because its waiters come first.
-- KEYS: all_permits*
-- ARGV: (owner, fence, lease)
--   of each; lease: ms
-- Out of memory: goes on
-- Reply: per key the new deadline us, or 0 when the grant has ended, or an error's text; last, now us
-- Invariants: only the owner's deadline changes, and only to a later one
-- include: now
-- include: lifetimes
-- include: alone
local reply = {}
for index, permits in ipairs(all_permits) do
  local at = FIRST + (index - 1) * STRIDE
  local owner, fence, lease = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local problem = alone(function()
    local packed, latest, newest, ahead = unpack(redis.call('HMGET', permits, 'g' .. fence, 'e', 'c', 'z'))
    ahead = math.max(tonumber(ahead or 0), tonumber(newest or 0) - now) -- see permits/parts/permits.lua
    local permits_now = now + ahead
    local deadline, holder, request, units, since_us = unpack(packed and cmsgpack.unpack(packed) or {})
    if holder == owner and deadline > permits_now then
      deadline = math.max(deadline, permits_now + lease * 1000)
      latest = math.max(tonumber(latest), deadline)
      -- the holder is stored as claimed; its key in the heap is corrected by the next script that reads it there
      packed = cmsgpack.pack({deadline, owner, request, units, since_us})
      redis.call('HSET', permits, 'g' .. fence, packed, 'e', latest, 'c', permits_now, 'z', ahead)
      outlive(permits, latest)
      reply[index] = deadline - ahead
    else
      reply[index] = 0
    end
  end)
  if problem then reply[index] = problem end
end
reply[#reply + 1] = now
return reply
