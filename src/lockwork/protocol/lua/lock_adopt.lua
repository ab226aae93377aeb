-- Makes a live grant a new one of another owner, with a higher fence; the line waits on.
-- KEYS: lock
-- ARGV: new owner, new request, lease ms, old owner, old fence
-- Reply: {fence, deadline us, now us}; fence 0 when the old grant is over
-- Invariants: only a live grant with that owner and fence is taken over
-- include: now
-- include: line
local held = redis.call('HMGET', lock, 'o', 'r', 'f', 'd', 't', 'l')
local deadline = deadline_of(held[4], held[6])
if held[1] == ARGV[1] and held[2] == ARGV[2] and deadline > now then
  return {tonumber(held[3]), deadline, now} -- taken over by an earlier try, whose reply was lost
end
if held[1] ~= ARGV[4] or held[3] ~= ARGV[5] or deadline <= now then return {0, 0, now} end
local fence, ends = grant(ARGV[1], ARGV[2], tonumber(ARGV[3]), held[3])
keep(ends, fence)
if held[5] then warn(ends) end
return {fence, ends, now}
