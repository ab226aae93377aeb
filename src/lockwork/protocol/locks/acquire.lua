-- Grants the lock, or adds the caller to the waiters, or refuses; a repeated call refreshes the grant or the place.
-- KEYS: lock
-- ARGV: owner, request, lease: number, claim: number, wait: number, channel, secret?
--   lease, claim: ms; wait: 0 to be refused at once, 2 if the caller's process was subscribed to its channel just now,
--   otherwise 1; secret: seals the message of a transfer
-- Reply: {GRANTED, fence, deadline us, now us}; {NOT_GRANTED, check ms, now us, ticket}, call again after this time (0:
--   refused, and then without a ticket)
-- Codes: <locks/reply>
-- Invariants: no grant before the end of another; the fence rises; waiters are served in order
-- include: now
-- include: locks/expiry
-- include: locks/fields
local stored = wait > 1 and read_lock(request)
local holder, last_fence, deadline, tail, last_lease
if stored then
  holder, last_fence, deadline, tail, last_lease = stored[1], stored[3], stored[4], stored[8], stored[12]
else -- its process did not wait for any lock yet, so probably it need not wait
  holder, last_fence, deadline, tail, last_lease = unpack(redis.call('HMGET', lock, 'o', 'f', 'd', 't', 'l'))
end
if not tail and (deadline or '0') == '0' and (tonumber(last_fence) or 0) < now then
  -- released, and without waiters: a shortcut, because it takes longer to define the functions of the parts below
  local ends = now + lease * 1000
  redis.call('HSET', lock, 'o', owner, 'r', request, 'f', string.format('%d', now), 'd', string.format('%d', ends), 'l', lease)
  -- a hash without an owner was deleted after the last grant, and expires earlier
  if not holder or lease > math.max(tonumber(last_lease or 0), WAITER_MS) or not is_outlived(last_fence) then
    outlive(lock, ends)
  end
  return {GRANTED, now, ends, now}
end
stored = stored or read_lock(request)
local holder_request, ticket, head, count, first_skipped, unresponsive = stored[2], stored[6], stored[7], stored[9], stored[10], stored[11]
-- include: waiter
-- include: locks/checks
-- include: locks/lock_expiry
local ends = tonumber(deadline or 0)
if wait > 1 and not ticket and ends > now and ends <= now + (last_lease or 0) * 1000
  and holder and holder ~= owner and string.sub(holder_request, 1, 1) ~= '~' and not first_skipped and not unresponsive then
  -- held, and no waiter is skipped: a shortcut for the last place
  local first, last = tonumber(head or 1), (tail or 0) + 1
  local check = check_interval(last - first, ends)
  local packed = pack_waiter({
    ends_at_us = now + WAITER_MS * 1000, claim_ms = math.min(lease, claim), request = request, owner = owner, channel = channel,
    next_check_us = now + check * 1000, since_us = now, units = 1, secret = secret or '', was_unsubscribed = false
  })
  redis.call('HSET', lock, 'h', first, 't', last, 'm', (count or last - first) + 1, 'i' .. request, last, 'w' .. last, packed)
  keep_expiry(ends, tonumber(last_fence), last_fence, deadline)
  return {NOT_GRANTED, check, now, last}
end
-- include: locks/waiters
-- include: locks/ask
return ask(owner, request, lease, claim, wait > 0, channel, secret, wait > 1, stored)
