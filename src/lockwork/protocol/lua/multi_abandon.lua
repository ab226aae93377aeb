-- Withdraws a request from several locks: out of the lines where it waits, handed on where it was granted.
-- KEYS: locks
-- ARGV: owner, request
-- Reply: 1
-- Invariants: grants of other requests stay as they are
-- include: now
-- include: line
-- include: alone
-- include: withdraw
redis.pcall('HDEL', KEYS[1], '') -- a script that has deleted may go on writing when the server is out of memory
for _, key in ipairs(KEYS) do
  lock = key
  alone(function() withdraw(ARGV[1], ARGV[2]) end)
end
return 1
