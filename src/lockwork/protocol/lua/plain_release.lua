-- Ends a lock that is a string key, if it still has our token.
-- KEYS: key
-- ARGV: again (1: an earlier try may have been applied), token
-- Reply: 1 released; 0 not ours any more
-- Invariants: a key with another token stays as it is
if redis.call('TYPE', KEYS[1]).ok == 'string' and redis.call('GET', KEYS[1]) == ARGV[2] then
  return redis.call('DEL', KEYS[1])
end
return tonumber(ARGV[1])
