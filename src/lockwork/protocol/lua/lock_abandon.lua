-- Withdraws a request: out of the line if it waits, handed on if it was granted meanwhile.
-- KEYS: lock
-- ARGV: owner, request
-- Reply: 1
-- Invariants: grants of other requests stay as they are
-- include: now
-- include: line
-- include: withdraw
redis.call('HDEL', KEYS[1], '') -- a script that has deleted may go on writing when the server is out of memory
withdraw(ARGV[1], ARGV[2])
return 1
