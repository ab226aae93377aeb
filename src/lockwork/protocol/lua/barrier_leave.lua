-- Withdraws an arrival, unless the barrier has opened for it.
-- KEYS: <barrier>
-- ARGV: request
-- Out of memory: goes on
-- Reply: {1, index, generation} it has passed, and nothing was withdrawn; {0, 0, 0} it does not count any more
-- Invariants: what has passed stays passed
-- include: now
-- include: barrier
local mine = passed(request)
if mine then return {1, mine[2], mine[1]} end
drop(request)
return {0, 0, 0}
