-- Ends a grant, and transfers the lock to the next live waiter in the same step.
-- KEYS: lock
-- ARGV: again: flag, owner, fence, at_least?: number, ticket?: number
--   again: an earlier try may have been applied; at_least: ms before another owner gets the lock, 0 for none; ticket:
--   of the grant, if it was transferred: the next one is read at once
-- Out of memory: goes on, after its own deletions
-- Reply: 1 released; 0 the owner no longer held it
-- Invariants: only the grant with this fence is ended
-- include: now
-- include: lifetimes
local next_ticket = (ticket or 0) + 1
local holder, held_fence, deadline, head, tail, count, first_skipped, unresponsive, first_waiter, next_waiter =
  unpack(redis.call('HMGET', lock, 'o', 'f', 'd', 'h', 't', 'm', 'b', 's', 'w1', 'w' .. next_ticket))
if holder ~= owner or held_fence ~= fence or (deadline or '0') == '0' then
  -- the server cannot tell if the earlier try was in time: the caller compares its time of sending
  return again and 1 or 0
end
local left_us = deadline - now
if at_least == 0 then at_least = nil end
if not tail and not at_least and left_us < MARGIN_MS * 1000 then
  -- without waiters, the hash is small, and its expiry is right
  redis.call('HDEL', lock, 'd')
  return left_us > 0 and 1 or 0
end
-- include: locks/waiters
if at_least and left_us > 0 then
  -- held for its minimum time, without an owner
  local ends = now + at_least * 1000
  redis.call('HDEL', lock, 'u')
  redis.call('HSET', lock, 'o', '', 'r', '', 'd', ends, 'l', at_least)
  set_expiry(ends, tonumber(held_fence))
  if tail then notify_next_waiters(ends) end
else
  release_to_next(held_fence, deadline, head, tail, count, first_skipped, unresponsive,
    {[1] = first_waiter or nil, [next_ticket] = next_waiter or nil})
end
return left_us > 0 and 1 or 0
