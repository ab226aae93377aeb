-- Ends a lock whose value is the time at which it ends, if it still has our digits.
-- KEYS: key
-- ARGV: again: flag, digits, fence?
--   again: an earlier try may have been applied; digits: ours; fence: unused
-- Reply: 1 released; 0 not ours any more
-- Invariants: a key with other digits stays as it is
-- include: now
-- include: endtime
if redis.call('TYPE', key).ok == 'string' then
  local _, ends, _, owner = read(key)
  if ends and owner == digits then
    redis.call('DEL', key)
    return ends > now and 1 or 0
  end
end
return again and 1 or 0
