-- Withdraws a request from several locks: out of the lines where it waits, handed on where it was granted.
-- KEYS: locks*
-- ARGV: owner, request
-- Out of memory: goes on
-- Reply: 1
-- Invariants: grants of other requests stay as they are
-- include: now
local lock -- one after the other
-- include: line
-- include: alone
-- include: withdraw
for _, key in ipairs(locks) do
  lock = key
  alone(function() withdraw(owner, request) end)
end
return 1
