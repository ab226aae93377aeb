-- Ends a grant and hands the lock to the next live waiter in the same step.
-- KEYS: lock
-- ARGV: owner, fence
-- Reply: 1 released (now, or by an earlier try of this call); 0 not the owner's any more
-- Invariants: only the grant with this fence is ended
-- include: now
-- include: line
local held = redis.call('HMGET', lock, 'o', 'f', 'p', 'd')
if held[1] == ARGV[1] and held[2] == ARGV[2] then
  pass(held[2])
  if tonumber(held[4]) <= now then return 0 end
  redis.call('HSET', lock, 'p', held[2])
  return 1
end
return held[3] == ARGV[2] and 1 or 0
