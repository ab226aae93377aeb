-- Ends a grant and hands the lock to the next live waiter in the same step.
-- KEYS: lock
-- ARGV: again: flag, owner, fence, at_least?: number
--   again: an earlier try may have been applied; at_least: ms to keep it from everybody else
-- Out of memory: goes on
-- Reply: 1 released; 0 not the owner's any more
-- Invariants: only the grant with this fence is ended
-- include: now
-- include: lifetimes
local held = redis.call('HMGET', lock, 'o', 'f', 'd', 'h', 't')
if held[1] ~= owner or held[2] ~= fence or held[3] == '0' then
  -- whether the earlier try ended the grant or came too late cannot be told any more: its sender knows when it began
  return again and 1 or 0
end
local left = held[3] - now
if not held[5] and not at_least and left < MARGIN * 1000 then
  -- there never was a waiter: the hash is small, and its expiry is right
  redis.call('HSET', lock, 'd', 0)
  return left > 0 and 1 or 0
end
-- include: lock_waiters
if at_least and left > 0 then
  -- kept for its minimum, without an owner
  local ends = now + at_least * 1000
  redis.call('HSET', lock, 'o', '', 'r', '', 'd', ends, 'l', at_least)
  keep(ends, tonumber(held[2]))
  if held[5] then warn(ends) end
else
  pass(held[2], held[4], held[5])
end
return left > 0 and 1 or 0
