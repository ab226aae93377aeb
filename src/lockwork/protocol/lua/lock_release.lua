-- Ends a grant and hands the lock to the next live waiter in the same step.
-- KEYS: lock
-- ARGV: owner, fence
-- Reply: 1 released (now, or by an earlier try of this call); 0 not the owner's any more
-- Invariants: only the grant with this fence is ended
-- include: now
-- include: line
redis.call('HDEL', KEYS[1], '') -- a script that has deleted may go on writing when the server is out of memory
local held = redis.call('HMGET', lock, 'o', 'f', 'p', 'd', 'h', 't')
if held[1] == ARGV[1] and held[2] == ARGV[2] and held[4] ~= '0' then
  local left = tonumber(held[4]) - now
  if not held[6] and left > 0 and left < MARGIN * 1000 then
    -- nobody ever waited: the hash is small, and its expiry as it should be
    redis.call('HSET', lock, 'd', 0, 'p', held[2])
    return 1
  end
  pass(held[2], held[5], held[6])
  if left <= 0 then return 0 end
  redis.call('HSET', lock, 'p', held[2])
  return 1
end
return held[3] == ARGV[2] and 1 or 0
