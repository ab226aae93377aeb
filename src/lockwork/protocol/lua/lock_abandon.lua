-- Withdraws a request: out of the line if it waits, handed on if it was granted meanwhile.
-- KEYS: lock
-- ARGV: owner, request
-- Reply: 1
-- Invariants: grants of other requests stay as they are
-- include: now
-- include: line
redis.call('HDEL', KEYS[1], '') -- a script that has deleted may go on writing when the server is out of memory
local held = redis.call('HMGET', lock, 'o', 'r', 'f', 'd', 'h', 't')
if held[1] == ARGV[1] and held[2] == ARGV[2] and held[4] ~= '0' then
  pass(held[3], held[5], held[6])
else
  leave(ARGV[2])
end
return 1
