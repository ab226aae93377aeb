-- Grants the lock, or adds the caller to the waiters, or refuses; a repeated call refreshes the grant or the place.
-- KEYS: lock
-- ARGV: owner, request, lease: number, claim: number, wait: flag, channel, secret?
--   lease, claim: ms; wait: false to be refused at once; secret: seals the message of a transfer
-- Reply: {GRANTED, fence, deadline us, now us}; {NOT_GRANTED, check ms, now us}, call again after this time (0:
--   refused)
-- Codes: <locks/reply>
-- Invariants: no grant before the end of another; the fence rises; waiters are served in order
-- include: now
-- include: lifetimes
local last_fence, deadline, tail = unpack(redis.call('HMGET', lock, 'f', 'd', 't'))
if not tail and (deadline or '0') == '0' and (tonumber(last_fence) or 0) < now then
  -- released, and without waiters: a shortcut, because it takes longer to define the functions of the parts below
  local ends = now + lease * 1000
  redis.call('HSET', lock, 'o', owner, 'r', request, 'f', now, 'd', ends, 'l', lease)
  outlive(lock, ends)
  return {GRANTED, now, ends, now}
end
-- include: locks/waiters
-- include: locks/ask
return ask(owner, request, lease, claim, wait, channel, secret)
