-- Requests `lock`, which a script may set to one key after the other: grants it, or adds the caller to the waiters, or
-- refuses. A repeated request refreshes its grant or its place.
-- Returns the reply of locks/acquire.lua.
-- needs: GRANTED, NOT_GRANTED
-- include: locks/fields
-- include: locks/waiters

-- A process may keep an unused lock, whose request then begins with ~. Ask it to release the lock.
local function ask_sticky_holder(holder_request, channels)
  local process = holder_request and string.match(holder_request, '^~([^;]*)%.')
  if process then publish(channels .. process, '! asked ' .. lock) end
end

-- subscribed: the caller's process was subscribed to its channel just now
-- stored: the fields of the lock, if they are read already
local function ask(owner, request, lease, claim, wait, channel, secret, subscribed, stored)
  local holder, holder_request, last_fence, stored_deadline, transferred, ticket, head, tail, count, first_skipped, unresponsive, held_lease =
    unpack(stored or read_lock(request))
  local deadline = clamp_deadline(stored_deadline, held_lease)
  local channels = string.match(channel, '^.*:wake:')
  local free, out_of_budget = false, false
  open_waiters(lock, head, tail, count, first_skipped, unresponsive)
  ticket = tonumber(ticket or nil)
  if ticket then restore_place(ticket) end

  if holder and deadline > now then
    mark_alive(channel)
    if holder == owner then
      if holder_request == request then
        -- a repeated call after a lost reply or a transfer: same fence, full lease
        local ends = math.max(deadline, now + lease * 1000)
        redis.call('HSET', lock, 'd', ends, 'l', math.max(lease, tonumber(held_lease or 0)))
        if waiters.stored then save_waiters() end
        set_expiry(ends, tonumber(last_fence))
        return {GRANTED, tonumber(last_fence), ends, now}
      end
      -- granted to an earlier call of this owner, which never received the reply: that grant is not in use
      remove_request(request)
      free = true
    end
  else
    -- the clock may have been set forward: notify the holder's process, so that it checks its lease at once
    if (holder or '') ~= '' and (stored_deadline or '0') ~= '0' and channels then
      publish(channels .. string.match(holder, '^[^:]*'), '! look ' .. lock)
    end
    -- an unclaimed transfer has its original deadline
    local claim_ends, claimant = string.match(transferred or '', '^(%d+) (.*)$')
    if holder and claim_ends and tonumber(claim_ends) == tonumber(stored_deadline or nil) then mark_unresponsive(claimant) end
    mark_alive(channel)
    local waiter
    waiter, out_of_budget = remove_first_live(request)
    if waiter and waiter.request ~= request then
      deadline = transfer(waiter, last_fence, stored_deadline)
    elseif waiter or not out_of_budget then
      free = true
    else
      deadline = now
    end
  end
  if free then
    local fence, ends = grant(owner, request, lease, last_fence)
    set_expiry(ends, fence)
    if tail then notify_next_waiters(ends) end
    return {GRANTED, fence, ends, now}
  end

  if deadline > now then ask_sticky_holder(holder_request, channels) end
  if not wait then
    remove_request(request)
    save_waiters()
    return {NOT_GRANTED, out_of_budget and 1 or 0, now}
  end
  local since_us = now
  if ticket then
    subscribed = nil -- it checks again, perhaps because it was not notified
    local waiter = read_waiter(lock, ticket)
    since_us = waiter and waiter.since_us or now
  else
    ticket = new_ticket()
  end
  subscribed = subscribed or is_subscribed(channel)
  local check = out_of_budget and 1 or check_interval(ticket - waiters.head, deadline)
  if not subscribed then check = math.min(check, UNSUBSCRIBED_CHECK_MS) end
  local place = pack_waiter({
    ends_at_us = now + WAITER_MS * 1000, claim_ms = math.min(lease, claim), request = request, owner = owner, channel = channel,
    next_check_us = now + check * 1000, since_us = since_us, units = 1, secret = secret or '', was_unsubscribed = not subscribed
  })
  save_waiter(ticket, request, place)
  keep_expiry(deadline, tonumber(last_fence or 0), last_fence, stored_deadline)
  return {NOT_GRANTED, check, now, ticket}
end
