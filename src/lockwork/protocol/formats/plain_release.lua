-- Ends a lock that is a string key, if it still has the caller's token.
-- KEYS: key
-- ARGV: again: flag, token, fence?
--   again: an earlier try may have been applied; fence: unused
-- Reply: 1 released; 0 the key has another token or does not exist
-- Invariants: a key with another token does not change
if redis.call('TYPE', key).ok == 'string' and redis.call('GET', key) == token then
  return redis.call('DEL', key)
end
return again and 1 or 0
