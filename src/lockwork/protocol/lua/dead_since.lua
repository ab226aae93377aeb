-- Counts the jobs that died lately.
-- KEYS: dead
-- ARGV: recent: number
--   recent: ms
-- Reply: how many died in the last `recent` ms
-- include: now
return redis.call('ZCOUNT', dead, math.floor(now / 1000) - recent, '+inf')
