-- Ends a lock whose value is its end time, if it still has the caller's digits.
-- KEYS: key
-- ARGV: again: flag, digits, fence?
--   again: an earlier try may have been applied; digits: unique to this acquisition; fence: unused
-- Reply: 1 released; 0 the key has other digits or does not exist
-- Invariants: a key with other digits does not change
-- include: now
-- include: formats/endtime
if redis.call('TYPE', key).ok == 'string' then
  local _, ends, _, owner = read(key)
  if ends and owner == digits then
    redis.call('DEL', key)
    return ends > now and 1 or 0
  end
end
return again and 1 or 0
