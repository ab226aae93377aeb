-- Withdraws a request from several locks: it leaves the waiters, and locks that it was granted pass to the next one.
-- KEYS: locks*
-- ARGV: owner, request
-- Out of memory: goes on
-- Reply: 1
-- Invariants: grants of other requests stay as they are
-- include: now
local lock -- one after the other
-- include: lock_waiters
-- include: alone
-- include: withdraw
for _, key in ipairs(locks) do
  lock = key
  alone(function() withdraw(owner, request) end)
end
return 1
