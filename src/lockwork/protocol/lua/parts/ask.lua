-- Asks for the lock in `lock`, which a script that includes this may point at one key after the other.
-- Grants it, or makes the caller a waiter, or refuses; called again, it refreshes either.
-- `secret` seals the message that hands the lock over.
-- Returns {1, fence, deadline us, now us} granted; {0, check ms, now us} not granted, look again after that time (0: refused).
-- include: lock_waiters

local function ask(owner, request, lease, claim, wait, channel, secret)
  local held = redis.call('HMGET', lock, 'o', 'r', 'f', 'd', 'u', 'i' .. request, 'h', 't', 'm', 'b', 's', 'l')
  local deadline = deadline_of(held[4], held[12])
  local channels = string.match(channel, '^.*:wake:')
  local free, more = false, false
  open_waiters(lock, unpack(held, 7, 11))
  local ticket = tonumber(held[6] or nil)
  if ticket then come_back(ticket) end

  if held[1] and deadline > now then
    asks(channel)
    if held[1] == owner then
      if held[2] == request then
        -- our own grant, met again after a lost reply or a hand-over: same fence, full lease
        local ends = math.max(deadline, now + lease * 1000)
        redis.call('HSET', lock, 'd', ends, 'l', math.max(lease, tonumber(held[12] or 0)))
        if line.stored then save_waiters() end
        keep(ends, tonumber(held[3]))
        return {1, tonumber(held[3]), ends, now}
      end
      -- granted to an earlier call of this owner that never learned of it: that grant is not in use
      leave(request)
      free = true
    end
  else
    -- the lease has run out, by a clock that may have been set: its holder's process is to ask at once whether it still holds
    if (held[1] or '') ~= '' and held[4] ~= '0' and channels then
      publish(channels .. string.match(held[1], '^[^:]*'), '! look ' .. lock)
    end
    -- an unclaimed hand-over: its deadline is unchanged
    local ends, to = string.match(held[5] or '', '^(%d+) (.*)$')
    if held[1] and ends and tonumber(ends) == tonumber(held[4] or nil) then unclaimed(to) end
    asks(channel)
    local waiter
    waiter, more = first(request)
    if waiter and waiter[3] ~= request then
      deadline = hand(waiter, held[3])
    elseif waiter or not more then
      free = true
    else
      deadline = now
    end
  end
  if free then
    if line.stored then save_waiters() end
    local fence, ends = grant(owner, request, lease, held[3])
    keep(ends, fence)
    if held[8] then warn(ends) end
    return {1, fence, ends, now}
  end

  -- a process that keeps a lock it does not need (its request begins with ~) is asked to give it back
  local keeper = held[2] and deadline > now and string.match(held[2], '^~([^;]*)%.')
  if keeper then publish(channels .. keeper, '! asked ' .. lock) end

  if not wait then
    leave(request)
    save_waiters()
    return {0, more and 1 or 0, now}
  end
  local since = now
  if ticket then
    local packed = redis.call('HGET', lock, 'w' .. ticket)
    since = packed and cmsgpack.unpack(packed)[7] or now
  else
    ticket = join()
  end

  -- When to look again if no wake-up comes: the first waiter just after the holder's deadline and at least every second
  -- (its wake-up may be lost), those behind it a little later each, to step in for a dead head; a waiter that cannot be notified, often.
  local ahead = ticket - line.head
  local left = math.max(0, math.ceil((deadline - now) / 1000))
  local check
  if ahead <= 0 then
    check = math.min(left + 2, 1000)
  else
    check = math.min(left + math.min(ahead * 50, LATE), LOOK)
  end
  local deaf = not listening(channel)
  if deaf then check = math.min(check, DEAF_LOOK) end
  if more then check = 1 end
  check = math.max(check, 1)
  local looks = now + check * 1000
  local place = {now + WAITER * 1000, math.min(lease, claim), request, owner, channel, looks, since, 1, secret or '', deaf or nil}
  save_waiters('i' .. request, ticket, 'w' .. ticket, cmsgpack.pack(place))
  keep(deadline, tonumber(held[3] or 0))
  return {0, check, now}
end
