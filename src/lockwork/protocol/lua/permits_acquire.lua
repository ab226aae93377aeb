-- Grants units, or makes the caller a waiter, or refuses; called again, it refreshes either.
-- KEYS: permits
-- ARGV: owner, request, lease: number, claim: number, wait: flag, channel, units: number, size: number, secret?
--   lease, claim: ms; wait: or be refused at once; size: the capacity; secret: seals a hand-over
-- Reply: {1, fence, deadline us, now us} granted; {0, check ms, now us} not granted, look again after that
--   time (0: refused)
-- Invariants: a grant is given only when the live holders' units and its own are within the capacity; the fence rises; the
--   line is served in order; a request is granted once
-- include: now
-- include: permits
-- include: permit_waiters
local known = redis.call('HMGET', permits, 'r' .. request, 'i' .. request)
local held = holder(known[1])
asks(channel)
if known[2] then come_back(tonumber(known[2])) end
if held then
  if held[1] > now then
    -- our own grant, met again after a lost reply or a hand-over: same fence, full lease
    local ends = math.max(held[1], now + lease * 1000)
    held[1], held[6], latest = ends, nil, math.max(latest, ends)
    redis.call('HSET', permits, 'g' .. known[1], cmsgpack.pack(held))
    save()
    return {1, tonumber(known[1]), ends, now}
  end
  drop(known[1], held)
end

-- who comes says how many there are; who waits says so again when there are not enough for it any more
local ticket = tonumber(known[2] or nil)
if not ticket or units > capacity then capacity = size end
sweep()
-- leases have run out, by a clock that may have been set: their holders' processes are to ask at once whether they still hold
local channels = string.match(channel, '^.*:wake:')
for _, other in ipairs(channels and lapsed or {}) do
  publish(channels .. string.match(other, '^[^:]*'), '! look ' .. permits)
end
asks(channel)
local fence, ends, more = serve(request, lease)
if not fence and not ticket and not more and line.head > line.tail and used + units <= capacity then
  fence, ends = grant(owner, request, lease, units)
end
if fence then
  save()
  return {1, fence, ends, now}
end
if not wait then
  if ticket then
    leave(request)
    serve('')
  end
  save()
  return {0, more and 1 or 0, now}
end

local since = now
if ticket then
  since = cmsgpack.unpack(redis.call('HGET', permits, 'w' .. ticket))[7]
else
  ticket = join()
  redis.call('HSET', permits, 'i' .. request, ticket)
end
-- When to look again if no wake-up comes: the first waiter just after the earliest deadline and at least every second (its
-- wake-up may be lost), those behind it a little later each, to step in when the first is dead; a waiter that cannot be notified, often.
local check
local left = math.max(0, math.ceil((soonest - now) / 1000))
if more or soonest == now then
  check = 1
elseif ticket == line.head then
  check = math.min(left + 2, OFTEN)
else
  local first = redis.call('HGET', permits, 'w' .. line.head)
  if first then left = math.min(left, math.max(0, math.ceil((cmsgpack.unpack(first)[1] - now) / 1000))) end
  check = math.min(left + math.min((ticket - line.head) * 50, LATE), LOOK)
end
local deaf = not listening(channel)
if deaf then check = math.min(check, DEAF_LOOK) end
local claim = math.min(lease, claim)
local looks = now + check * 1000
local place = {looks + PLACE * 1000, claim, request, owner, channel, looks, since, units, secret or '', deaf or nil}
redis.call('HSET', permits, 'w' .. ticket, cmsgpack.pack(place))
save()
return {0, check, now}
