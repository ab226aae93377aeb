-- Withdraws a request to run: its function has not started, and will not.
-- KEYS: once
-- ARGV: own_request
-- Out of memory: goes on
-- Reply: 1
-- Invariants: a run of another request does not change; a late call of the request does not run
-- include: now
-- include: synchronizers/once
if stored_state == 'r' and request == own_request then
  redis.call('HDEL', once, 's', 'o', 'q', 'd', 'e')
  notify_waiters()
  ends = now
end
if not is_known(once, 'x', own_request) then remember(once, 'x', own_request) end
set_expiry(math.max(ends, deadline))
return 1
