-- A lock's hash: o owner, r request, f fence, d deadline (us; 0 or missing: released), l lease (ms) of the grant; u 'deadline
-- channel' of the last transfer; the fields of its waiters, see parts/waiters.lua.
-- needs: lock
-- include: locks/lock_expiry
-- include: locks/checks
-- include: waiters
-- include: seal

-- Return the deadline of a grant, and shorten it to a whole lease from now if the clock was set back.
local function clamp_deadline(deadline, lease)
  deadline, lease = tonumber(deadline or 0), tonumber(lease or nil)
  if not lease or deadline <= now + lease * 1000 then return deadline end
  deadline = now + lease * 1000
  redis.call('HSET', lock, 'd', deadline)
  return deadline
end

-- Write a grant, and the waiters.
local function grant(owner, request, lease, last_fence, ...)
  local fence = (tonumber(last_fence) or 0) + 1
  if fence < now then fence = now end
  local deadline = now + lease * 1000
  if waiters and waiters.key == lock then
    save_waiters('o', owner, 'r', request, 'f', fence, 'd', deadline, 'l', lease, ...)
  else
    redis.call('HSET', lock, 'o', owner, 'r', request, 'f', fence, 'd', deadline, 'l', lease, ...)
  end
  return fence, deadline
end

-- Remove the first waiter that can receive the lock, and return it; the caller saves the waiters. The second value is
-- true when the call has used its budget.
local function remove_first_live(own_request)
  local waiter, out_of_budget = advance_to_first_live(own_request)
  if waiter then remove_head(waiter.request) end
  return waiter, out_of_budget
end

-- Notify the next waiters that would check after a new grant's deadline: three of them, because one or two may be dead.
local function notify_next_waiters(deadline)
  if is_checked_in_time(deadline) then return end
  local head, tail = unpack(redis.call('HMGET', lock, 'h', 't'))
  local awake = 0
  for ticket = tonumber(head or 1), math.min(tonumber(tail or 0), tonumber(head or 1) + 99) do
    local waiter = read_waiter(lock, ticket)
    if waiter and waiter.ends_at_us > now and is_subscribed(waiter.channel) then
      if waiter.next_check_us > deadline + LATE_MS * 1000 then publish(waiter.channel, waiter.request .. ' look') end
      awake = awake + 1
      if awake == 3 then return end
    end
  end
end

-- Grant the lock to a waiter until its process claims it, and notify only that process.
local function transfer(waiter, last_fence, last_deadline)
  local lease = claim_ms(waiter, waiter.claim_ms, now)
  local unclaimed = string.format('%.0f %s', now + lease * 1000, waiter.channel)
  local fence, deadline = grant(waiter.owner, waiter.request, lease, last_fence, 'u', unclaimed)
  keep_expiry(deadline, fence, last_fence, last_deadline)
  publish(waiter.channel, sealed(waiter.secret or '', waiter.request, string.format('%.0f %.0f', fence, deadline)))
  notify_next_waiters(deadline)
  return deadline
end

-- End the grant: transfer the lock to the next live waiter, or without waiters reduce the hash to the fence.
-- Deletions come first, see save_waiters. With `count`, `first_skipped`, `unresponsive` and `read`, they are read already.
local function release_to_next(last_fence, last_deadline, head, tail, count, first_skipped, unresponsive, read)
  local waiter, out_of_budget
  if tail then
    if not read then
      count, first_skipped, unresponsive = unpack(redis.call('HMGET', lock, 'm', 'b', 's'))
    end
    open_waiters(lock, head, tail, count, first_skipped, unresponsive, read)
    waiter, out_of_budget = remove_first_live('')
  end
  if waiter then
    transfer(waiter, last_fence, last_deadline)
    return
  end
  if tail then
    redis.call('HDEL', lock, 'o', 'r', 'd', 'l')
    save_waiters()
  end
  if tail and waiters.count > 0 then
    set_expiry(now, tonumber(last_fence) or 0)
    if out_of_budget then notify_to_continue() end
  else
    redis.call('DEL', lock)
    redis.call('HSET', lock, 'f', last_fence)
    redis.call('PEXPIRE', lock, math.max(0, math.ceil((last_fence - now) / 1000)) + MARGIN_MS)
  end
end
