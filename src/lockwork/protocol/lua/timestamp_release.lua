-- Ends a lock whose value is the time at which it ends, if it still has our digits.
-- KEYS: key
-- ARGV: again (1: an earlier try may have been applied), our digits
-- Reply: 1 released; 0 not ours any more
-- Invariants: a key with other digits stays as it is
-- include: now
-- include: endtime
if redis.call('TYPE', KEYS[1]).ok == 'string' then
  local _, ends, _, owner = read(KEYS[1])
  if ends and owner == ARGV[2] then
    redis.call('DEL', KEYS[1])
    return ends > now and 1 or 0
  end
end
return tonumber(ARGV[1])
