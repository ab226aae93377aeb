-- Makes a live grant a new one of another owner, with a higher fence; waiters go on waiting.
-- KEYS: lock
-- ARGV: owner, request, lease: number, old_owner, old_fence
--   lease: ms
-- Reply: {fence, deadline us, now us}; fence 0 when the old grant is over
-- Invariants: only a live grant with that owner and fence is taken over
-- include: now
-- include: lock_waiters
local held = redis.call('HMGET', lock, 'o', 'r', 'f', 'd', 't', 'l')
local deadline = deadline_of(held[4], held[6])
if held[1] == owner and held[2] == request and deadline > now then
  return {tonumber(held[3]), deadline, now} -- taken over by an earlier try, whose reply was lost
end
if held[1] ~= old_owner or held[3] ~= old_fence or deadline <= now then return {0, 0, now} end
local fence, ends = grant(owner, request, lease, held[3])
keep(ends, fence)
if held[5] then warn(ends) end
return {fence, ends, now}
