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
local stored = read_lock(request)
local holder, last_fence, deadline, tail, last_lease = stored[1], stored[3], stored[4], stored[8], stored[12]
if not tail and (deadline or '0') == '0' and (tonumber(last_fence) or 0) < now then
  -- released, and without waiters: a shortcut, because it takes longer to define the functions of the parts below
  local ends = now + lease * 1000
  redis.call('HSET', lock, 'o', owner, 'r', request, 'f', now, 'd', ends, 'l', lease)
  -- a hash without an owner was deleted after the last grant, and expires earlier
  if not holder or lease > math.max(tonumber(last_lease or 0), WAITER_MS) or not is_outlived(last_fence) then
    outlive(lock, ends)
  end
  return {GRANTED, now, ends, now}
end
-- include: locks/waiters
-- include: locks/ask
return ask(owner, request, lease, claim, wait > 0, channel, secret, wait > 1, stored)
