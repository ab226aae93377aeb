-- Raises the fence of a live grant, so that every later grant of this lock has a higher fence.
-- KEYS: lock
-- ARGV: owner, request, fence: number
--   fence: the new fence
-- Reply: {1, deadline us, now us}; {0, 0, now us} the grant has ended
-- Invariants: the fence never falls; only the owner's live grant changes
-- include: now
-- include: locks/waiters
local holder, holder_request, held_fence, deadline, lease = unpack(redis.call('HMGET', lock, 'o', 'r', 'f', 'd', 'l'))
deadline = clamp_deadline(deadline, lease)
if holder ~= owner or holder_request ~= request or deadline <= now then return {0, 0, now} end
if tonumber(held_fence) < fence then
  redis.call('HSET', lock, 'f', fence)
  set_expiry(deadline, fence)
end
return {1, deadline, now}
