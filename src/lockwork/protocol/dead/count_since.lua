-- Counts the jobs that died recently.
-- Flags: no-writes
-- KEYS: dead
-- ARGV: recent: number
--   recent: ms
-- Reply: number of jobs that died in the last `recent` ms
-- include: now
return redis.call('ZCOUNT', dead, math.floor(now / 1000) - recent, '+inf')
