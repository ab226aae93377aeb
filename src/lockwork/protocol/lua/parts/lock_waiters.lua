-- The waiters inside a lock's hash.
-- o owner, r request, f fence, d deadline (us, 0: released) of the grant, l its length (ms) when it was set;
-- u 'deadline channel' of the last hand-over; h, t, m, b, s, w<ticket>, i<request> the line, see waiters.lua; a waiter is
-- {deadline us, claim ms, request, owner, channel, looks again us, waits since us, units: 1, secret, deaf}
-- needs: lock
-- include: lifetimes
-- include: waiters
-- include: seal
local LOOK = 4900 -- ms after which every waiter looks again without a message
local LATE = 900 -- ms that the next waiter may look too late when a grant runs out; a claim (4 s) and that are LOOK

-- The fence is needed until the clock has passed it: it is ahead of a clock that was set back.
local function keep(deadline, fence)
  outlive(lock, math.max(deadline, fence))
end

-- A grant's deadline. It lies further ahead than its length only when the clock was set back: then that counts from now on.
local function deadline_of(deadline, length)
  deadline, length = tonumber(deadline or 0), tonumber(length or nil)
  if not length or deadline <= now + length * 1000 then return deadline end
  deadline = now + length * 1000
  redis.call('HSET', lock, 'd', deadline)
  return deadline
end

local function grant(owner, request, ms, last, ...)
  local fence = (tonumber(last) or 0) + 1
  if fence < now then fence = now end
  local deadline = now + ms * 1000
  redis.call('HSET', lock, 'o', owner, 'r', request, 'f', fence, 'd', deadline, 'l', ms, ...)
  return fence, deadline
end

-- Remove the first waiter that can be served, and return it. `mine` is alive whatever its deadline says. When the second value is
-- true, the rest is for the next call.
local function first(mine)
  local waiter, more = front(mine)
  if waiter then
    take(line.head, waiter[3])
    line.head = line.head + 1
  end
  save_waiters()
  return waiter, more
end

-- The next waiter may look again only in seconds. When a new grant is shorter than that, it is notified to look now, and so
-- learns when the grant runs out; and so are two more, because it may die. Those whose process is gone do not count.
local function warn(deadline)
  if deadline - now >= (LOOK - LATE) * 1000 then return end
  local range = redis.call('HMGET', lock, 'h', 't')
  local awake = 0
  for ticket = tonumber(range[1] or 1), math.min(tonumber(range[2] or 0), tonumber(range[1] or 1) + 99) do
    local packed = redis.call('HGET', lock, 'w' .. ticket)
    local waiter = packed and cmsgpack.unpack(packed)
    if waiter and waiter[1] > now and listening(waiter[5]) then
      if waiter[6] > deadline + LATE * 1000 then publish(waiter[5], waiter[3] .. ' look') end
      awake = awake + 1
      if awake == 3 then return end
    end
  end
end

-- Hand the lock to a waiter: it owns it from now on, for the short time it has to claim it, and only its process is notified.
local function hand(waiter, last)
  local ms = claim_of(waiter, waiter[2])
  local note = string.format('%.0f %s', now + ms * 1000, waiter[5])
  local fence, deadline = grant(waiter[4], waiter[3], ms, last, 'u', note)
  keep(deadline, fence)
  publish(waiter[5], sealed(waiter[9] or '', waiter[3], string.format('%.0f %.0f', fence, deadline)))
  warn(deadline)
  return deadline
end

-- The holder is gone: the next live waiter gets the lock, or the hash shrinks to the fence that the next grant must pass.
local function pass(last, head, tail)
  local waiter, more
  if tail then
    open_waiters(lock, head, tail, unpack(redis.call('HMGET', lock, 'm', 'b', 's')))
    waiter, more = first('')
  end
  if waiter then
    hand(waiter, last)
  elseif tail and line.count > 0 then
    redis.call('HDEL', lock, 'o', 'r', 'd', 'l')
    keep(now, tonumber(last) or 0)
    if more then call_on() end
  else
    redis.call('DEL', lock)
    redis.call('HSET', lock, 'f', last)
    redis.call('PEXPIRE', lock, math.max(0, math.ceil((last - now) / 1000)) + MARGIN)
  end
end
