-- Raises the fence of a live grant, so that every later grant of this lock has a higher one.
-- KEYS: lock
-- ARGV: owner, request, fence to raise to
-- Reply: {1, deadline us, now us}; {0, 0, now us} the grant is over
-- Invariants: the fence never falls; only the owner's live grant is changed
-- include: now
local held = redis.call('HMGET', KEYS[1], 'o', 'r', 'f', 'd')
local deadline = tonumber(held[4] or 0)
if held[1] ~= ARGV[1] or held[2] ~= ARGV[2] or deadline <= now then return {0, 0, now} end
if tonumber(held[3]) < tonumber(ARGV[3]) then redis.call('HSET', KEYS[1], 'f', ARGV[3]) end
return {1, deadline, now}
