-- Deletes names from an index, unless they were added again.
-- KEYS: names: zset
-- ARGV: (name, added)
--   added: when the name was added, as the caller read it (ms)
-- Reply: number of deleted names
local dropped = 0
for at = FIRST, #ARGV, STRIDE do
  if tonumber(redis.call('ZSCORE', names, ARGV[at]) or nil) == tonumber(ARGV[at + 1]) then
    dropped = dropped + redis.call('ZREM', names, ARGV[at])
  end
end
return dropped
