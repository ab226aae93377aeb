-- Reads how much of a latch's count is left.
-- KEYS: <latch>
-- ARGV: size: number
--   size: the latch's count
-- Reply: {1, left}; {-1, count} the latch is in use with another count
-- include: now
-- include: latch
if ends <= now then return {1, size} end
if count ~= size then return {-1, count} end
return {1, left}
