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
local holder, held_fence, deadline, tail, head, count, first_skipped, unresponsive, first_waiter, next_waiter
if ticket then
  holder, held_fence, deadline, tail, head, count, first_skipped, unresponsive, first_waiter, next_waiter =
    unpack(redis.call('HMGET', lock, 'o', 'f', 'd', 't', 'h', 'm', 'b', 's', 'w1', 'w' .. next_ticket))
else -- its holder did not wait, so probably no other caller waits
  holder, held_fence, deadline, tail = unpack(redis.call('HMGET', lock, 'o', 'f', 'd', 't'))
  if tail then
    head, count, first_skipped, unresponsive, first_waiter = unpack(redis.call('HMGET', lock, 'h', 'm', 'b', 's', 'w1'))
    next_waiter = first_waiter
  end
end
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
-- include: waiter
-- include: publish
-- include: seal
-- include: locks/checks
-- include: locks/lock_expiry
local packed = head and (tonumber(head) == next_ticket and next_waiter or head == '1' and first_waiter)
if packed and left_us > 0 and not at_least and not first_skipped and not unresponsive then
  local waiter = unpack_waiter(packed)
  local ends = now + waiter.claim_ms * 1000
  if waiter.ends_at_us > now and is_checked_in_time(ends) and has_subscriber(waiter.channel) ~= false then
    -- the first waiter can receive the lock: a shortcut, because it takes longer to define the functions of the parts below
    local next_fence, remaining = math.max(now, held_fence + 1), head == tail and 0 or (count or tail - head + 1) - 1
    local words = string.format('%d %d', next_fence, ends)
    local fence_text, ends_text = string.match(words, '(%d+) (%d+)')
    if remaining > 0 then
      redis.call('HDEL', lock, 'w' .. head, 'i' .. waiter.request)
      redis.call('HSET', lock, 'o', waiter.owner, 'r', waiter.request, 'f', fence_text, 'd', ends_text, 'l', waiter.claim_ms,
        'u', ends_text .. ' ' .. waiter.channel, 'h', head + 1, 'm', remaining)
    else
      redis.call('HDEL', lock, 'w' .. head, 'i' .. waiter.request, 'h', 't', 'm')
      redis.call('HSET', lock, 'o', waiter.owner, 'r', waiter.request, 'f', fence_text, 'd', ends_text, 'l', waiter.claim_ms,
        'u', ends_text .. ' ' .. waiter.channel)
    end
    keep_expiry(ends, next_fence, held_fence, deadline)
    publish(waiter.channel, sealed(waiter.secret or '', waiter.request, words))
    return 1
  end
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
