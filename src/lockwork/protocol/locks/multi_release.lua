-- Ends several grants of one owner, and transfers each lock to its next live waiter in the same step.
-- KEYS: locks*
-- ARGV: again: flag, owner, (fence)
--   again: an earlier try may have been applied; fence: per lock
-- Out of memory: goes on
-- Reply: per key 1 released; 0 the owner no longer held it; or an error's text, and then only the others are released
-- Invariants: only the grants with these fences are ended
-- include: now
local lock -- the current one
-- include: locks/waiters
-- include: alone
local reply = {}
for at, key in ipairs(locks) do
  lock = key
  local problem = alone(function()
    local holder, held_fence, deadline, head, tail = unpack(redis.call('HMGET', lock, 'o', 'f', 'd', 'h', 't'))
    if holder ~= owner or held_fence ~= ARGV[FIRST + at - 1] or (deadline or '0') == '0' then
      reply[at] = again and 1 or 0 -- see locks/release.lua
    else
      reply[at] = tonumber(deadline) > now and 1 or 0
      release_to_next(held_fence, deadline, head, tail)
    end
  end)
  if problem then reply[at] = problem end
end
return reply
