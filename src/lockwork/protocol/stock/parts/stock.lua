-- A stock's hash: total, sold, held, expired units; opened the first number of units; f last fence;
-- b<buyer> units held or bought; k<key> id of that key's reservation; r<id> a reservation (MessagePack, state h(eld) or
-- c(onfirmed)); clock newest time that was written (us), ahead difference of this stock's clock to the server's (us);
-- m<minute>r, m<minute>s units reserved and sold in a minute since 1970, for an hour; m the newest of these minutes.
-- holds: held reservations by expiry.
-- KEYS: stock, holds: zset
-- If the server's clock was set back, the stock's clock continues from its newest time, so no reservation gets longer.
-- include: now
local newest_us, ahead, newest_minute, stored_opened = unpack(redis.call('HMGET', stock, 'clock', 'ahead', 'm', 'opened'))
ahead = math.max(tonumber(ahead or 0), tonumber(newest_us or 0) - now)
newest_minute = tonumber(newest_minute or 0)
local clock = now + ahead
local created_with -- units, set by create_stock

-- Count units that were reserved (r) or sold (s); the first of a minute deletes counts older than an hour.
local function count_units(event, units)
  local minute = math.floor(clock / 60000000)
  if minute ~= newest_minute then
    local old = {}
    for old_minute = newest_minute - 59, math.min(newest_minute, minute - 60) do
      old[#old + 1], old[#old + 2] = 'm' .. old_minute .. 'r', 'm' .. old_minute .. 's'
    end
    if newest_minute > 0 and #old > 0 then redis.call('HDEL', stock, unpack(old)) end
    redis.call('HSET', stock, 'm', minute)
    newest_minute = minute
  end
  redis.call('HINCRBY', stock, 'm' .. minute .. event, units)
end

-- Create the stock unless it exists.
local function create_stock(total)
  if redis.call('HSETNX', stock, 'total', total) == 1 then
    redis.call('HSET', stock, 'sold', 0, 'held', 0, 'expired', 0, 'opened', total)
  end
  created_with = tonumber(stored_opened or total) -- stocks of older versions have none
end

-- Return the units on sale, the units of a buyer, and true if callers wait.
local function read_units(buyer)
  local total, sold, held, buyer_units, last_ticket = unpack(redis.call('HMGET', stock, 'total', 'sold', 'held', 'b' .. buyer, 't'))
  return total - sold - held, tonumber(buyer_units or 0), last_ticket and true
end

local function unpack_reservation(packed)
  local state, buyer, units, key, expires_us, fence, unclaimed_hold_ms = unpack(cmsgpack.unpack(packed), 1, 7)
  return {
    state = state, buyer = buyer, units = units, key = key, expires_us = expires_us, fence = fence, unclaimed_hold_ms = unclaimed_hold_ms
  }
end

-- Return a reservation, or false; it has unclaimed_hold_ms until its waiter claims it.
local function read_reservation(id)
  local packed = redis.call('HGET', stock, 'r' .. id)
  return packed and unpack_reservation(packed)
end

local function is_live(reservation)
  return reservation.state == 'c' or reservation.expires_us > clock
end

local function read_live_reservation(id)
  local reservation = read_reservation(id)
  return reservation and is_live(reservation) and reservation
end

local function left_ms(reservation)
  return reservation.state == 'h' and math.ceil((reservation.expires_us - clock) / 1000) or 0
end

local function write_reservation(id, reservation)
  local packed = cmsgpack.pack({
    reservation.state, reservation.buyer, reservation.units, reservation.key, reservation.expires_us, reservation.fence,
    reservation.unclaimed_hold_ms
  })
  redis.call('HSET', stock, 'r' .. id, packed, 'clock', clock, 'ahead', ahead)
end

-- Reserve units for a buyer; return the reservation's fence, which is higher than all before.
local function reserve(id, buyer, units, key, expires_us, unclaimed_hold_ms)
  local fence = math.max(clock, tonumber(redis.call('HGET', stock, 'f') or 0) + 1)
  redis.call('HSET', stock, 'f', fence)
  write_reservation(id, {
    state = 'h', buyer = buyer, units = units, key = key, expires_us = expires_us, fence = fence, unclaimed_hold_ms = unclaimed_hold_ms
  })
  redis.call('ZADD', holds, expires_us, id)
  redis.call('HINCRBY', stock, 'held', units)
  count_units('r', units)
  redis.call('HINCRBY', stock, 'b' .. buyer, units)
  if key ~= '' then redis.call('HSET', stock, 'k' .. key, id) end
  return fence
end

-- Delete a reservation, and put its units on sale again.
local function remove_reservation(id, reservation)
  local buyer, units, key = reservation.buyer, reservation.units, reservation.key
  redis.call('ZREM', holds, id)
  redis.call('HDEL', stock, 'r' .. id)
  redis.call('HINCRBY', stock, reservation.state == 'h' and 'held' or 'sold', -units)
  if redis.call('HINCRBY', stock, 'b' .. buyer, -units) <= 0 then redis.call('HDEL', stock, 'b' .. buyer) end
  if key ~= '' and redis.call('HGET', stock, 'k' .. key) == id then redis.call('HDEL', stock, 'k' .. key) end
end

-- End expired reservations, at most 500; return true when there are more.
local function end_expired()
  local expired = redis.call('ZRANGEBYSCORE', holds, '-inf', clock, 'LIMIT', 0, 500)
  for _, id in ipairs(expired) do
    local reservation = read_reservation(id)
    if reservation then remove_reservation(id, reservation) else redis.call('ZREM', holds, id) end
  end
  if #expired > 0 then redis.call('HINCRBY', stock, 'expired', #expired) end
  return #expired == 500
end
