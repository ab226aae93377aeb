-- Renews many grants in one step; a lapsed grant is not revived, its waiters come first.
-- KEYS: permits, one or more
-- ARGV: owner, fence, lease ms; three for each key
-- Reply: per key the new deadline us, or 0 when the grant is over, or an error's text; last, now us
-- Invariants: a deadline only grows, and only its owner's
-- include: now
-- include: alone
redis.pcall('HDEL', KEYS[1], '') -- a script that has deleted may go on writing when the server is out of memory
local reply = {}
for index, books in ipairs(KEYS) do
  local at = 3 * index - 2
  local problem = alone(function()
    local found = redis.call('HMGET', books, 'g' .. ARGV[at + 1], 'e', 'c', 'z')
    local ahead = math.max(tonumber(found[4] or 0), tonumber(found[3] or 0) - now) -- as in permits.lua
    local today = now + ahead
    local held = found[1] and cmsgpack.unpack(found[1])
    if held and held[2] == ARGV[at] and held[1] > today then
      held[1] = math.max(held[1], today + ARGV[at + 2] * 1000)
      held[6] = nil -- it is claimed
      local latest = math.max(tonumber(found[2]), held[1])
      -- its key in the heap stays behind: the next script that meets it there puts it where it belongs
      redis.call('HSET', books, 'g' .. ARGV[at + 1], cmsgpack.pack(held), 'e', latest, 'c', today, 'z', ahead)
      redis.call('PEXPIRE', books, math.max(math.ceil((latest - now) / 1000), 15000) + 60000) -- as save() in permits.lua
      reply[index] = held[1] - ahead
    else
      reply[index] = 0
    end
  end)
  if problem then reply[index] = problem end
end
reply[#reply + 1] = now
return reply
