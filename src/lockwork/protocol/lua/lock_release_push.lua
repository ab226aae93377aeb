-- Ends a grant, hands the lock to the next live waiter, and enqueues a job: all of it, or nothing.
-- KEYS: jobs, ready:0, ready:1, ready:2, due, idle, stats, results:0, results:1, lock, dead
-- ARGV: again (1: an earlier try may have been applied), owner, fence, ms to keep it from everybody else, id, record, delay ms
-- Reply: 1 released and enqueued, now or before; 0 not the owner's any more, and nothing was enqueued;
--   {waiting, size}: the queue has no room for the job, and nothing was done
-- Invariants: a job if and only if the live grant with this fence was ended by this call, and one job however often it is sent
-- include: now
-- include: push
-- include: line
lock = KEYS[10]
local held = redis.call('HMGET', lock, 'o', 'f', 'd', 'h', 't')
local again, id = ARGV[1] == '1', ARGV[5]
if again and (redis.call('HEXISTS', jobs, id) == 1 or redis.call('HEXISTS', KEYS[8], id) == 1
    or redis.call('HEXISTS', KEYS[9], id) == 1) then
  return 1 -- the earlier try did it: who has the lock now is somebody else
end
if held[1] ~= ARGV[2] or held[2] ~= ARGV[3] or held[3] == '0' then return 0 end
local left = held[3] - now
if left <= 0 then
  pass(held[2], held[4], held[5])
  return 0
end
local no_room = refused(5, again, KEYS[11])
if no_room then return no_room end
push(5, again) -- first: without memory for a job, the server refuses the whole step here
local keeping = tonumber(ARGV[4])
if keeping > 0 then
  -- held for its minimum: by nobody, until then
  local ends = now + keeping * 1000
  redis.call('HSET', lock, 'o', '', 'r', '', 'd', ends, 'l', keeping)
  keep(ends, tonumber(held[2]))
  if held[5] then warn(ends) end
else
  pass(held[2], held[4], held[5])
end
return 1
