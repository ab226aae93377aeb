-- Grants the lock, or makes the caller a waiter, or refuses; called again, it refreshes either.
-- KEYS: lock
-- ARGV: owner, request, lease: number, claim: number, wait: flag, channel, secret?
--   lease, claim: ms; wait: or be refused at once; secret: seals a hand-over
-- Reply: {1, fence, deadline us, now us} granted; {0, check ms, now us} not granted, look again after that
--   time (0: refused)
-- Invariants: no grant while another deadline lies ahead; the fence rises; waiters are served in order
-- include: now
-- include: lifetimes
local held = redis.call('HMGET', lock, 'f', 'd', 't')
if not held[3] and (held[2] or '0') == '0' and (tonumber(held[1]) or 0) < now then
  -- released, and there never was a waiter: the parts below would do the same, but defining their functions takes longer
  local ends = now + lease * 1000
  redis.call('HSET', lock, 'o', owner, 'r', request, 'f', now, 'd', ends, 'l', lease)
  outlive(lock, ends)
  return {1, now, ends, now}
end
-- include: lock_waiters
-- include: ask
return ask(owner, request, lease, claim, wait, channel, secret)
