-- Withdraws a request: removes its waiter, or releases its grant to the next waiter.
-- KEYS: lock
-- ARGV: owner, request
-- Out of memory: goes on
-- Reply: 1
-- Invariants: grants of other requests do not change
-- include: now
-- include: locks/waiters
-- include: locks/withdraw
withdraw(owner, request)
return 1
