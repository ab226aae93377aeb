-- The waiting line of permits: strictly in order, whoever is first waits until its units are free.
-- w<ticket> = {deadline us, claim ms, request, owner, channel, looks again us, waits since us, units, secret}; i<request> = ticket
-- include: publish
-- include: seal
local LOOK = 5000 -- ms after which every waiter looks again by itself
local OFTEN = 1000 -- ms after which the first in line does
local LATE = 900 -- ms that one further behind looks later than the first, at most

local function leave(request)
  local ticket = redis.call('HGET', books, 'i' .. request)
  if ticket then redis.call('HDEL', books, 'i' .. request, 'w' .. ticket) end
end

-- The first live waiter; dead ones leave the line. `mine` is alive whatever its deadline says.
-- A script looks at 1000 tickets at most: then the second value is true, the rest is for the next one.
local tickets = 1000
local function front(mine)
  while head <= tail do
    if tickets == 0 then return nil, true end
    tickets = tickets - 1
    local packed = redis.call('HGET', books, 'w' .. head)
    if packed then
      local waiter = cmsgpack.unpack(packed)
      if waiter[1] > now or waiter[3] == mine then return waiter end
      redis.call('HDEL', books, 'w' .. head, 'i' .. waiter[3])
    end
    head = head + 1
  end
  return nil
end

-- Who is first looks often. One that has just become the first learns it now; and so do two more, because it may die. Those
-- whose process is gone hear nothing and do not count. `now_too`: also when they will look soon.
local function tell(mine, now_too)
  local told = 0
  for ticket = head, math.min(tail, head + 9) do
    local packed = redis.call('HGET', books, 'w' .. ticket)
    local waiter = packed and cmsgpack.unpack(packed)
    if waiter and waiter[3] == mine then return end
    if waiter and waiter[1] > now then
      if waiter[6] <= now + OFTEN * 1000 and not now_too then return end
      waiter[6] = now + OFTEN * 1000
      redis.call('HSET', books, 'w' .. ticket, cmsgpack.pack(waiter))
      told = told + math.min(1, publish(waiter[5], waiter[3] .. ' look'))
      if told == 3 then return end
    end
  end
end

-- Hand units to waiters in their order, as far as they go: each owns them from now on, for the short time it has to claim
-- them, and only its process is told. `mine` is who asks, with a lease of `ms`: returns its fence and deadline if it got
-- them; then whether there is more to do than one call should: the first in line is told to go on.
local function serve(mine, ms)
  local fence, ends
  for _ = 1, 100 do
    local waiter, more = front(mine)
    if not waiter then return fence, ends, more end
    if used + waiter[8] > capacity then
      tell(mine, false)
      return fence, ends, false
    end
    redis.call('HDEL', books, 'w' .. head, 'i' .. waiter[3])
    head = head + 1
    if waiter[3] == mine then
      fence, ends = grant(waiter[4], mine, ms, waiter[8])
    else
      local given, limit = grant(waiter[4], waiter[3], waiter[2], waiter[8])
      publish(waiter[5], sealed(waiter[9] or '', waiter[3], string.format('%.0f %.0f', given, limit)))
    end
  end
  tell(mine, true)
  return fence, ends, true
end
