-- Reads how much of a latch's count is left.
-- KEYS: latch, log 0, log 1
-- ARGV: count
-- Reply: {1, left}; {-1, count} the latch is in use with another count
-- include: now
-- include: latch
if ends <= now then return {1, tonumber(ARGV[1])} end
if count ~= tonumber(ARGV[1]) then return {-1, count} end
return {1, left}
