-- Ends several grants of one owner, and hands each lock to its next live waiter in the same step.
-- KEYS: locks
-- ARGV: again (1: an earlier try may have been applied), owner, a fence for each key
-- Reply: per key 1 released; 0 not the owner's any more; or an error's text, and then only the others are released
-- Invariants: only the grants with these fences are ended
-- include: now
-- include: line
-- include: alone
redis.pcall('HDEL', KEYS[1], '') -- a script that has deleted may go on writing when the server is out of memory
local reply = {}
for at, key in ipairs(KEYS) do
  lock = key
  local problem = alone(function()
    local held = redis.call('HMGET', lock, 'o', 'f', 'd', 'h', 't')
    if held[1] ~= ARGV[2] or held[2] ~= ARGV[at + 2] or held[3] == '0' then
      reply[at] = tonumber(ARGV[1]) -- as in lock_release: nobody can tell whether the earlier try came in time
    else
      reply[at] = tonumber(held[3]) > now and 1 or 0
      pass(held[2], held[4], held[5])
    end
  end)
  if problem then reply[at] = problem end
end
return reply
