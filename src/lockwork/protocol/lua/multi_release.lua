-- Ends several grants of one owner, and hands each lock to its next live waiter in the same step.
-- KEYS: locks*
-- ARGV: again: flag, owner, (fence)
--   again: an earlier try may have been applied; fence: one for each lock
-- Out of memory: goes on
-- Reply: per key 1 released; 0 not the owner's any more; or an error's text, and then only the others are released
-- Invariants: only the grants with these fences are ended
-- include: now
local lock -- one after the other
-- include: line
-- include: alone
local reply = {}
for at, key in ipairs(locks) do
  lock = key
  local problem = alone(function()
    local held = redis.call('HMGET', lock, 'o', 'f', 'd', 'h', 't')
    if held[1] ~= owner or held[2] ~= ARGV[FIRST + at - 1] or held[3] == '0' then
      reply[at] = again and 1 or 0 -- as in lock_release: nobody can tell whether the earlier try came in time
    else
      reply[at] = tonumber(held[3]) > now and 1 or 0
      pass(held[2], held[4], held[5])
    end
  end)
  if problem then reply[at] = problem end
end
return reply
