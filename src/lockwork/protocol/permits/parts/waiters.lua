-- Grants units to waiters, strictly in order: the first waits until its units are free.
-- include: permits/permits
-- include: seal
local CHECK_MS = 5000 -- longest interval between a waiter's checks without a message
local FIRST_CHECK_MS = 1000 -- longest interval for the first waiter
local LATE_MS = 900 -- longest delay of a later waiter's check after the first waiter's

-- Notify the first waiter, and two more in case it is dead, unless one of the three checks soon. Waiters that are not
-- subscribed do not count. With `always`, notify them even if they check soon.
local function notify_first_waiters(own_request, always)
  local notified = 0
  for ticket = waiters.head, math.min(waiters.tail, waiters.head + 99) do
    local waiter = read_waiter(permits, ticket)
    if waiter and waiter.request == own_request then return end
    if waiter and waiter.ends_at_us > now and is_subscribed(waiter.channel) then
      if waiter.next_check_us <= now + FIRST_CHECK_MS * 1000 and not always then return end
      waiter.next_check_us = now + FIRST_CHECK_MS * 1000
      redis.call('HSET', permits, 'w' .. ticket, pack_waiter(waiter))
      publish(waiter.channel, waiter.request .. ' look')
      notified = notified + 1
      if notified == 3 then return end
    end
  end
end

-- Grant the free units to waiters until their processes claim them, and notify only those processes.
-- The caller's own request gets its whole `lease`: return its fence and deadline if it was granted. The third value is
-- true when the call has used its budget; then a waiter is notified to continue.
local function grant_to_waiters(own_request, lease)
  local fence, deadline
  for _ = 1, 100 do
    local waiter, out_of_budget = advance_to_first_live(own_request)
    if not waiter then
      if out_of_budget then notify_to_continue() end
      return fence, deadline, out_of_budget
    end
    if used + waiter.units > capacity then
      notify_first_waiters(own_request, false)
      return fence, deadline, false
    end
    remove_waiter(waiters.head, waiter.request)
    waiters.head = waiters.head + 1
    if waiter.request == own_request then
      fence, deadline = grant(waiter.owner, own_request, lease, waiter.units)
    else
      local claim = claim_ms(waiter, waiter.claim_ms, now)
      local claim_fence, claim_ends = grant(waiter.owner, waiter.request, claim, waiter.units, waiter.channel)
      publish(waiter.channel, sealed(waiter.secret or '', waiter.request, string.format('%.0f %.0f', claim_fence, claim_ends)))
    end
  end
  notify_first_waiters(own_request, true)
  return fence, deadline, true
end

-- Grant released units to the waiters, and save the state.
local function grant_released()
  if waiters.count > 0 then
    remove_expired_holders()
    grant_to_waiters('')
  end
  save_permits()
end
