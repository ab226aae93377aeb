-- Withdraws an arrival, unless its party has passed.
-- KEYS: <synchronizers/barrier>
-- ARGV: request
-- Out of memory: goes on
-- Reply: {1, index, generation} it has passed, and nothing was withdrawn; {0, 0, 0} withdrawn
-- Invariants: a passed party is not withdrawn
-- include: now
-- include: synchronizers/barrier
local generation, index = passed_as(request)
if generation then return {1, index, generation} end
remove_arrival(request)
return {0, 0, 0}
