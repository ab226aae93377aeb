-- The waiters of permits, strictly in order: the first waits until its units are free. A waiter is
-- {deadline us, claim ms, request, owner, channel, looks again us, waits since us, units, secret, deaf}
-- include: permits
-- include: seal
local LOOK = 5000 -- ms after which every waiter looks again without a message
local OFTEN = 1000 -- ms after which the first waiter does
local LATE = 900 -- ms that one further behind looks later than the first, at most

-- The first waiter looks often. One that has just become the first learns it now; and so do two more, because it may die. Those
-- whose process is gone do not count. `now_too`: also when they will look soon.
local function alert(mine, now_too)
  local told = 0
  for ticket = line.head, math.min(line.tail, line.head + 99) do
    local packed = redis.call('HGET', permits, 'w' .. ticket)
    local waiter = packed and cmsgpack.unpack(packed)
    if waiter and waiter[3] == mine then return end
    if waiter and waiter[1] > now and listening(waiter[5]) then
      if waiter[6] <= now + OFTEN * 1000 and not now_too then return end
      waiter[6] = now + OFTEN * 1000
      redis.call('HSET', permits, 'w' .. ticket, cmsgpack.pack(waiter))
      publish(waiter[5], waiter[3] .. ' look')
      told = told + 1
      if told == 3 then return end
    end
  end
end

-- Hand units to waiters in their order, as far as they go: each owns them from now on, for the short time it has to claim
-- them, and only its process is notified. `mine` is who asks, with a lease of `ms`: returns its fence and deadline if it got
-- them; then whether there is more to do than one call should: a waiter is notified to go on.
local function serve(mine, ms)
  local fence, ends
  for _ = 1, 100 do
    local waiter, more = front(mine)
    if not waiter then
      if more then call_on() end
      return fence, ends, more
    end
    if used + waiter[8] > capacity then
      alert(mine, false)
      return fence, ends, false
    end
    take(line.head, waiter[3])
    line.head = line.head + 1
    if waiter[3] == mine then
      fence, ends = grant(waiter[4], mine, ms, waiter[8])
    else
      local given, limit = grant(waiter[4], waiter[3], claim_of(waiter, waiter[2]), waiter[8], waiter[5])
      publish(waiter[5], sealed(waiter[9] or '', waiter[3], string.format('%.0f %.0f', given, limit)))
    end
  end
  alert(mine, true)
  return fence, ends, true
end
