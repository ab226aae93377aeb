-- Ends a grant and hands the lock to the next live waiter in the same step.
-- KEYS: lock
-- ARGV: again (1: an earlier try may have been applied), owner, fence, ms to keep it from everybody else (if any)
-- Reply: 1 released; 0 not the owner's any more
-- Invariants: only the grant with this fence is ended
-- include: now
redis.call('HDEL', KEYS[1], '') -- a script that has deleted may go on writing when the server is out of memory
local held = redis.call('HMGET', KEYS[1], 'o', 'f', 'd', 'h', 't')
if held[1] ~= ARGV[2] or held[2] ~= ARGV[3] or held[3] == '0' then
  -- whether the earlier try ended the grant or came too late, nobody can tell any more: its sender knows when it began
  return tonumber(ARGV[1])
end
local left = held[3] - now
if not held[5] and not ARGV[4] and left < 60000000 then
  -- nobody ever waited: the hash is small, and its expiry (MARGIN in line.lua) is as it should be
  redis.call('HSET', KEYS[1], 'd', 0)
  return left > 0 and 1 or 0
end
-- include: line
if ARGV[4] and left > 0 then
  -- held for its minimum: by nobody, until then
  local ends = now + ARGV[4] * 1000
  redis.call('HSET', lock, 'o', '', 'r', '', 'd', ends, 'l', ARGV[4])
  keep(ends, tonumber(held[2]))
  if held[5] then warn(ends) end
else
  pass(held[2], held[4], held[5])
end
return left > 0 and 1 or 0
