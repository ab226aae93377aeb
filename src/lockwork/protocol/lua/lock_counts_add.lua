-- Adds to the counts of locks, which all processes share.
-- KEYS: counts: hash, sent
-- ARGV: kept: number, (name, amount)
--   kept: ms that the counts stay after this
-- Reply: 1, or 0 when this call was applied before
-- Invariants: a call adds once, if it is sent again within a minute
if not redis.call('SET', sent, 1, 'NX', 'PX', 60000) then return 0 end
for at = FIRST, #ARGV, STRIDE do redis.call('HINCRBY', counts, ARGV[at], ARGV[at + 1]) end
redis.call('PEXPIRE', counts, kept)
return 1
