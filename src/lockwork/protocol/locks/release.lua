-- Ends a grant, and transfers the lock to the next live waiter in the same step.
-- KEYS: lock
-- ARGV: again: flag, owner, fence, at_least?: number
--   again: an earlier try may have been applied; at_least: ms before another owner gets the lock
-- Out of memory: goes on
-- Reply: 1 released; 0 the owner no longer held it
-- Invariants: only the grant with this fence is ended
-- include: now
-- include: lifetimes
local holder, held_fence, deadline, head, tail = unpack(redis.call('HMGET', lock, 'o', 'f', 'd', 'h', 't'))
if holder ~= owner or held_fence ~= fence or deadline == '0' then
  -- the server cannot tell if the earlier try was in time: the caller compares its time of sending
  return again and 1 or 0
end
local left_us = deadline - now
if not tail and not at_least and left_us < MARGIN_MS * 1000 then
  -- without waiters, the hash is small, and its expiry is right
  redis.call('HSET', lock, 'd', 0)
  return left_us > 0 and 1 or 0
end
-- include: locks/waiters
if at_least and left_us > 0 then
  -- held for its minimum time, without an owner
  local ends = now + at_least * 1000
  redis.call('HSET', lock, 'o', '', 'r', '', 'd', ends, 'l', at_least)
  set_expiry(ends, tonumber(held_fence))
  if tail then notify_next_waiters(ends) end
else
  release_to_next(held_fence, head, tail)
end
return left_us > 0 and 1 or 0
