-- Withdraws a request from several locks: removes its waiters, and releases its grants to the next waiters.
-- KEYS: locks*
-- ARGV: owner, request
-- Out of memory: goes on
-- Reply: 1
-- Invariants: grants of other requests do not change
-- include: now
local lock -- the current one
-- include: locks/waiters
-- include: alone
-- include: locks/withdraw
for _, key in ipairs(locks) do
  lock = key
  alone(function() withdraw(owner, request) end)
end
return 1
