-- Raises the fence of a live grant, so that every later grant of this lock has a higher one.
-- KEYS: lock
-- ARGV: owner, request, fence: number
--   fence: to raise to
-- Reply: {1, deadline us, now us}; {0, 0, now us} the grant is over
-- Invariants: the fence never falls; only the owner's live grant is changed
-- include: now
-- include: line
local held = redis.call('HMGET', lock, 'o', 'r', 'f', 'd', 'l')
local deadline = deadline_of(held[4], held[5])
if held[1] ~= owner or held[2] ~= request or deadline <= now then return {0, 0, now} end
if tonumber(held[3]) < fence then
  redis.call('HSET', lock, 'f', fence)
  keep(deadline, fence)
end
return {1, deadline, now}
