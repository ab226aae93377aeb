-- Ends a grant, transfers the lock to the next live waiter, and enqueues a job, in one step or not.
-- KEYS: <queue/push>, dead; lock
-- ARGV: again: flag, owner, fence, at_least: number, (id, record, delay)
--   again: an earlier try may have been applied; at_least: ms before another owner gets the lock; delay: ms
-- Indexed: stats
-- Reply: 1 released and enqueued, now or before; 0 the owner no longer held it, and nothing was enqueued;
--   {waiting, size}: the queue has no room for the job, and nothing was done
-- Invariants: the job is enqueued if and only if this call ended the live grant with this fence; a repeated call
--   enqueues no second job
-- include: now
-- include: queue/push
-- include: locks/waiters
local holder, held_fence, deadline, head, tail = unpack(redis.call('HMGET', lock, 'o', 'f', 'd', 'h', 't'))
local id = ARGV[FIRST]
if again and (redis.call('HEXISTS', jobs, id) == 1 or has_result(id)) then
  return 1 -- done by the earlier try: another owner has the lock now
end
if holder ~= owner or held_fence ~= fence or (deadline or '0') == '0' then return 0 end
if deadline - now <= 0 then
  release_to_next(held_fence, deadline, head, tail)
  return 0
end
local no_room = check_room_for_new(FIRST, again, dead)
if no_room then return no_room end
push(FIRST, again) -- first: without memory for a job, the server refuses the whole step here
if at_least > 0 then
  -- held for its minimum time, without an owner
  local ends = now + at_least * 1000
  redis.call('HSET', lock, 'o', '', 'r', '', 'd', ends, 'l', at_least)
  set_expiry(ends, tonumber(held_fence))
  if tail then notify_next_waiters(ends) end
else
  release_to_next(held_fence, deadline, head, tail)
end
return 1
