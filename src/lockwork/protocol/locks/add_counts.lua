-- Adds to the counts of locks, which all processes share.
-- KEYS: counts: hash, sent
-- ARGV: retention: number, (name, amount)
--   retention: lifetime of the counts, ms
-- Reply: 1, or 0 when this call was applied before
-- Invariants: a call that is repeated within a minute adds once
if not redis.call('SET', sent, 1, 'NX', 'PX', 60000) then return 0 end
for at = FIRST, #ARGV, STRIDE do redis.call('HINCRBY', counts, ARGV[at], ARGV[at + 1]) end
redis.call('PEXPIRE', counts, retention)
return 1
