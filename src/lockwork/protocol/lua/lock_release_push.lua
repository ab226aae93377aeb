-- Ends a grant, hands the lock to the next live waiter, and enqueues a job: all of it, or nothing.
-- KEYS: <push>, dead; lock
-- ARGV: again: flag, owner, fence, at_least: number, (id, record, delay)
--   again: an earlier try may have been applied; at_least: ms to keep it from everybody else; delay: ms
-- Reply: 1 released and enqueued, now or before; 0 not the owner's any more, and nothing was enqueued;
--   {waiting, size}: the queue has no room for the job, and nothing was done
-- Invariants: a job if and only if the live grant with this fence was ended by this call, and one job however often it is sent
-- include: now
-- include: push
-- include: lock_waiters
local held = redis.call('HMGET', lock, 'o', 'f', 'd', 'h', 't')
local id = ARGV[FIRST]
if again and (redis.call('HEXISTS', jobs, id) == 1 or redis.call('HEXISTS', results[1], id) == 1
    or redis.call('HEXISTS', results[2], id) == 1) then
  return 1 -- the earlier try did it: another owner has the lock now
end
if held[1] ~= owner or held[2] ~= fence or held[3] == '0' then return 0 end
local left = held[3] - now
if left <= 0 then
  pass(held[2], held[4], held[5])
  return 0
end
local no_room = refused(FIRST, again, dead)
if no_room then return no_room end
push(FIRST, again) -- first: without memory for a job, the server refuses the whole step here
if at_least > 0 then
  -- kept for its minimum, without an owner
  local ends = now + at_least * 1000
  redis.call('HSET', lock, 'o', '', 'r', '', 'd', ends, 'l', at_least)
  keep(ends, tonumber(held[2]))
  if held[5] then warn(ends) end
else
  pass(held[2], held[4], held[5])
end
return 1
