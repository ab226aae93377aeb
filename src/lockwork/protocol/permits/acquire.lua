-- Grants units, or adds the caller to the waiters, or refuses; a repeated call refreshes the grant or the place.
-- KEYS: permits
-- ARGV: owner, request, lease: number, claim: number, wait: flag, channel, units: number, size: number, secret?
--   lease, claim: ms; wait: false to be refused at once; size: the capacity; secret: seals the message of a transfer
-- Reply: {GRANTED, fence, deadline us, now us}; {NOT_GRANTED, check ms, now us}, call again after this time (0:
--   refused)
-- Codes: <locks/reply>
-- Invariants: the units of the live holders never exceed the capacity; the fence rises; waiters are served in order; a
--   request is granted once
-- include: now
-- include: permits/permits
-- include: permits/waiters
local fence, ticket = unpack(redis.call('HMGET', permits, 'r' .. request, 'i' .. request))
local holder = read_holder(fence)
mark_alive(channel)
ticket = tonumber(ticket or nil)
if ticket then restore_place(ticket) end
if holder then
  if holder.deadline > now then
    -- a repeated call after a lost reply or a transfer: same fence, full lease
    local ends = math.max(holder.deadline, now + lease * 1000)
    holder.deadline, holder.unclaimed_channel, latest = ends, nil, math.max(latest, ends)
    redis.call('HSET', permits, 'g' .. fence, pack_holder(holder))
    save_permits()
    return {GRANTED, tonumber(fence), ends, now}
  end
  remove_holder(fence, holder)
end

-- a new request sets the capacity; a waiter sets it again when its units exceed the capacity
if not ticket or units > capacity then capacity = size end
remove_expired_holders()
-- the clock may have been set forward: notify the processes of expired holders, so that they check their leases at once
local channels = string.match(channel, '^.*:wake:')
for _, other in ipairs(channels and expired_owners or {}) do
  publish(channels .. string.match(other, '^[^:]*'), '! look ' .. permits)
end
mark_alive(channel)
local granted, ends, out_of_budget = grant_to_waiters(request, lease)
if not granted and not ticket and not out_of_budget and waiters.head > waiters.tail and used + units <= capacity then
  granted, ends = grant(owner, request, lease, units)
end
if granted then
  save_permits()
  return {GRANTED, granted, ends, now}
end
if not wait then
  if ticket then
    remove_request(request)
    grant_to_waiters('')
  end
  save_permits()
  return {NOT_GRANTED, out_of_budget and 1 or 0, now}
end

local since_us = now
if ticket then
  since_us = read_waiter(permits, ticket).since_us
else
  ticket = new_ticket()
  redis.call('HSET', permits, 'i' .. request, ticket)
end
-- The first waiter checks just after the earliest deadline, and at least every second, because its message may be lost;
-- later waiters check after increasing delays, in case the first is dead.
local check
local left = math.max(0, math.ceil((earliest - now) / 1000))
if out_of_budget or earliest == now then
  check = 1
elseif ticket == waiters.head then
  check = math.min(left + 2, FIRST_CHECK_MS)
else
  local first = read_waiter(permits, waiters.head)
  if first then left = math.min(left, math.max(0, math.ceil((first.ends_at_us - now) / 1000))) end
  check = math.min(left + math.min((ticket - waiters.head) * 50, LATE_MS), CHECK_MS)
end
local subscribed = is_subscribed(channel)
if not subscribed then check = math.min(check, UNSUBSCRIBED_CHECK_MS) end
local next_check_us = now + check * 1000
local place = pack_waiter({
  ends_at_us = next_check_us + PLACE_MS * 1000, claim_ms = math.min(lease, claim), request = request, owner = owner, channel = channel,
  next_check_us = next_check_us, since_us = since_us, units = units, secret = secret or '', was_unsubscribed = not subscribed
})
redis.call('HSET', permits, 'w' .. ticket, place)
save_permits()
return {NOT_GRANTED, check, now}
