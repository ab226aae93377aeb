-- Turns a live grant into a new grant of another owner with a higher fence; the waiters keep their places.
-- KEYS: lock
-- ARGV: owner, request, lease: number, old_owner, old_fence
--   lease: ms
-- Reply: {fence, deadline us, now us}; fence 0 when the old grant has ended
-- Invariants: only a live grant with that owner and fence is adopted
-- include: now
-- include: locks/waiters
local holder, holder_request, held_fence, deadline, tail, held_lease = unpack(redis.call('HMGET', lock, 'o', 'r', 'f', 'd', 't', 'l'))
deadline = clamp_deadline(deadline, held_lease)
if holder == owner and holder_request == request and deadline > now then
  return {tonumber(held_fence), deadline, now} -- adopted by an earlier call, whose reply was lost
end
if holder ~= old_owner or held_fence ~= old_fence or deadline <= now then return {0, 0, now} end
local fence, ends = grant(owner, request, lease, held_fence)
set_expiry(ends, fence)
if tail then notify_next_waiters(ends) end
return {fence, ends, now}
