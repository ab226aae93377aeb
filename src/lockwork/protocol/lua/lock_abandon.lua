-- Withdraws a request: out of the line if it waits, handed on if it was granted meanwhile.
-- KEYS: lock
-- ARGV: owner, request
-- Out of memory: goes on
-- Reply: 1
-- Invariants: grants of other requests stay as they are
-- include: now
-- include: line
-- include: withdraw
withdraw(owner, request)
return 1
