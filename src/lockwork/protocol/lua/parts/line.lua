-- The waiting line inside a lock's hash.
-- o owner, r request, f fence, d deadline (us, 0: released) of the grant, l its length (ms) when it was set;
-- h, t first and last ticket, if anybody ever waited;
-- w<ticket> = {deadline us, claim ms, request, owner, channel, looks again us, waits since us, secret}; i<request> = ticket
-- include: publish
-- include: seal
local lock = KEYS[1]
local WAITER = 15000 -- ms that a place in the line lasts unless its process asks again
local MARGIN = 60000 -- ms that a key outlives its last deadline
local LOOK = 4900 -- ms after which every waiter looks again by itself
local LATE = 900 -- ms that the next in line may look too late when a grant runs out; a claim (4 s) and that are LOOK

-- Deadlines decide; the key's expiry only collects what nobody needs any more. The fence is needed until the clock has passed
-- it: it is ahead of a clock that was set back.
local function keep(deadline, fence)
  redis.call('PEXPIRE', lock, math.max(math.ceil((math.max(deadline, fence) - now) / 1000), WAITER) + MARGIN)
end

-- A grant's deadline. It lies further ahead than its length only when the clock was set back: then that counts from now on.
local function deadline_of(deadline, length)
  deadline, length = tonumber(deadline or 0), tonumber(length or nil)
  if not length or deadline <= now + length * 1000 then return deadline end
  deadline = now + length * 1000
  redis.call('HSET', lock, 'd', deadline)
  return deadline
end

local function grant(owner, request, ms, last)
  local fence = (tonumber(last) or 0) + 1
  if fence < now then fence = now end
  local deadline = now + ms * 1000
  redis.call('HSET', lock, 'o', owner, 'r', request, 'f', fence, 'd', deadline, 'l', ms)
  return fence, deadline
end

local function leave(request)
  local ticket = redis.call('HGET', lock, 'i' .. request)
  if ticket then redis.call('HDEL', lock, 'i' .. request, 'w' .. ticket) end
end

-- Take the first live waiter out of the line; dead ones go with it. `mine` is alive whatever its deadline says.
-- `head` and `tail` are h and t. At most 500 tickets a call: then the second value is true, the rest is for the next call.
local function first(mine, head, tail)
  if not tail then return nil end
  head, tail = tonumber(head), tonumber(tail)
  local last = math.min(tail, head + 499)
  while head <= last do
    local packed = redis.call('HGET', lock, 'w' .. head)
    head = head + 1
    if packed then
      local waiter = cmsgpack.unpack(packed)
      redis.call('HDEL', lock, 'w' .. (head - 1), 'i' .. waiter[3])
      if waiter[1] > now or waiter[3] == mine then
        redis.call('HSET', lock, 'h', head)
        return waiter
      end
    end
  end
  redis.call('HSET', lock, 'h', head)
  return nil, head <= tail
end

-- The next in line may look again only in seconds. When a new grant is shorter than that, it is told to look now, and so
-- learns when the grant runs out; and so are two more, because it may die. Those whose process is gone hear nothing and do
-- not count.
local function warn(deadline)
  if deadline - now >= (LOOK - LATE) * 1000 then return end
  local range = redis.call('HMGET', lock, 'h', 't')
  local told = 0
  for ticket = tonumber(range[1] or 1), math.min(tonumber(range[2] or 0), tonumber(range[1] or 1) + 9) do
    local packed = redis.call('HGET', lock, 'w' .. ticket)
    local waiter = packed and cmsgpack.unpack(packed)
    if waiter and waiter[1] > now and waiter[6] > deadline + LATE * 1000 then
      told = told + math.min(1, publish(waiter[5], waiter[3] .. ' look'))
      if told == 3 then return end
    end
  end
end

-- Hand the lock to a waiter: it owns it from now on, for the short time it has to claim it, and only its process is told.
local function hand(waiter, last)
  local fence, deadline = grant(waiter[4], waiter[3], waiter[2], last)
  keep(deadline, fence)
  publish(waiter[5], sealed(waiter[8] or '', waiter[3], string.format('%.0f %.0f', fence, deadline)))
  warn(deadline)
end

-- The holder is gone: the next live waiter gets the lock, or the hash shrinks to the fence that the next grant must pass.
local function pass(last, head, tail)
  local waiter, more = first('', head, tail)
  if waiter then
    hand(waiter, last)
  elseif more then
    redis.call('HDEL', lock, 'o', 'r', 'd', 'l')
  else
    redis.call('DEL', lock)
    redis.call('HSET', lock, 'f', last)
    redis.call('PEXPIRE', lock, math.max(0, math.ceil((last - now) / 1000)) + MARGIN)
  end
end
