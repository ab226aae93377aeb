-- Forgets the period: the next caller runs, even during an earlier run, whose result is then not stored.
-- KEYS: once
-- ARGV: own_request
-- Out of memory: goes on
-- Reply: 1
-- Invariants: a request resets once; the fence keeps rising
-- include: now
-- include: synchronizers/once
if stored_fence and not is_known(once, 'z', own_request) then
  redis.call('HDEL', once, 's', 'o', 'q', 'd', 'e', 'v')
  notify_waiters()
  remember(once, 'z', own_request)
  set_expiry(now)
end
return 1
