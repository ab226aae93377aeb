-- Callers that wait for units, in the stock's hash: h, t first and last ticket, if any caller waits; i<id> its ticket;
-- w<ticket> a waiter, see
-- parts/waiter.lua: request is the id of its reservation, owner the buyer, claim_ms the hold.
-- KEYS: stock
-- include: stock/stock
-- include: waiter
-- include: receivers
local PLACE_MS = 15000 -- lifetime of a waiter's place unless its process calls again
local CLAIM_MS = 4000 -- lifetime of a reservation until the waiter's process claims it
local CHECK_MS = 5000 -- longest interval between a waiter's checks without a message
local MOST_TICKETS = 500 -- tickets that one call reads; of removed waiters, 20 times this number

-- Remove a waiter, and advance the first ticket past removed waiters.
local function remove_waiter(ticket, id)
  redis.call('HDEL', stock, 'w' .. ticket, 'i' .. id)
  local head, tail = unpack(redis.call('HMGET', stock, 'h', 't'))
  head, tail = tonumber(head), tonumber(tail)
  if head < ticket then return end
  local last = math.min(tail, head + MOST_TICKETS)
  while head <= last and redis.call('HEXISTS', stock, 'w' .. head) == 0 do head = head + 1 end
  if head > tail then redis.call('HDEL', stock, 'h', 't') else redis.call('HSET', stock, 'h', head) end
end

local function remove_waiter_of(id)
  local ticket = redis.call('HGET', stock, 'i' .. id)
  if ticket then remove_waiter(tonumber(ticket), id) end
end

-- Notify the first waiter to check: it watches the reservation that expires next.
local function notify_first_waiter()
  local head, tail = unpack(redis.call('HMGET', stock, 'h', 't'))
  if not tail then return end
  for ticket = tonumber(head), math.min(tonumber(tail), head + 99) do
    local waiter = read_waiter(stock, ticket)
    if waiter and waiter.ends_at_us > clock and is_subscribed(waiter.channel) and notify(waiter.channel, waiter.request) > 0 then return end
  end
end

-- Reserve units for a waiter within its buyer's limit, and notify its process; return the number of units. A waiter
-- whose key got a reservation meanwhile is only notified.
local function reserve_for(ticket, waiter)
  local id, buyer, units = waiter.request, waiter.owner, waiter.units
  local buyer_units = waiter.limit > 0 and tonumber(redis.call('HGET', stock, 'b' .. buyer) or 0) or 0
  local has_earlier = waiter.key ~= '' and redis.call('HEXISTS', stock, 'k' .. waiter.key) == 1
  local fits = waiter.limit == 0 or buyer_units + units <= waiter.limit
  if not has_earlier and not fits then return 0 end
  remove_waiter(ticket, id)
  if not has_earlier then
    local hold = math.min(claim_ms(waiter, CLAIM_MS, clock), waiter.claim_ms)
    reserve(id, buyer, units, waiter.key, clock + hold * 1000, waiter.claim_ms)
  end
  publish(waiter.channel, id)
  return has_earlier and 0 or units
end

-- Reserve the units on sale for waiters that can have them, in order; at most 20 a call. A waiter whose process is not
-- subscribed keeps its place, and gets units when it calls.
local function reserve_for_waiters()
  local head, tail, total, sold, held = unpack(redis.call('HMGET', stock, 'h', 't', 'total', 'sold', 'held'))
  if not tail then return end
  local on_sale, served = total - sold - held, 0
  local first, budget, places = tonumber(head), 20 * MOST_TICKETS, {}
  tail = tonumber(tail)
  for ticket = first, tail do
    if on_sale <= 0 or served == 20 or budget <= 0 then break end
    if #places == 0 then
      local names = {}
      for next_ticket = ticket, math.min(tail, ticket + 49) do names[#names + 1] = 'w' .. next_ticket end
      places, first = redis.call('HMGET', stock, unpack(names)), ticket
    end
    local packed = places[ticket - first + 1]
    if ticket - first == 49 then places = {} end
    local waiter = packed and unpack_waiter(packed)
    budget = budget - (waiter and 20 or 1)
    if waiter and waiter.ends_at_us <= clock then
      remove_waiter(ticket, waiter.request)
    elseif waiter and waiter.units <= on_sale and is_reachable(waiter, clock) then
      local reserved = reserve_for(ticket, waiter)
      if reserved > 0 then on_sale, served = on_sale - reserved, served + 1 end
    end
  end
  if served > 0 then notify_first_waiter() end
end
