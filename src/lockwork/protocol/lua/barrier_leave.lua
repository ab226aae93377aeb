-- Withdraws an arrival, unless the barrier has opened for it.
-- KEYS: barrier, places, order
-- ARGV: request
-- Reply: {1, index, generation} it has passed, and nothing was withdrawn; {0, 0, 0} it does not count any more
-- Invariants: what has passed stays passed
-- include: now
-- include: barrier
redis.call('HDEL', barrier, '') -- a script that has deleted may go on writing when the server is out of memory
local mine = passed(ARGV[1])
if mine then return {1, mine[2], mine[1]} end
drop(ARGV[1])
return {0, 0, 0}
