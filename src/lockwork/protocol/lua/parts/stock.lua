-- A stock's state, one hash: total, sold, held, expired; f last fence; b<buyer> units held or bought; k<key> reservation of that
-- key; r<id> = {state h(eld) or c(onfirmed), buyer, units, key, expiry us, fence, hold ms if it was handed over and not yet claimed}.
-- clock newest time that was written (us), ahead how far this stock's clock is ahead of the server's (us);
-- m<minute>r, m<minute>s units that were reserved and sold in a minute since 1970, for an hour; m the newest of these minutes.
-- And the held reservations by expiry.
-- KEYS: stock, holds: zset
-- Where the server's clock is set back, the stock's goes on: so nothing is held for longer than it was reserved for.
-- include: now
local shown = redis.call('HMGET', stock, 'clock', 'ahead', 'm')
local ahead = math.max(tonumber(shown[2] or 0), tonumber(shown[1] or 0) - now)
local clock = now + ahead

-- Count units that were reserved (r) or sold (s); with the first of a minute, forget what is older than an hour.
local function count(what, units)
  local minute, newest = math.floor(clock / 60000000), tonumber(shown[3] or 0)
  if minute ~= newest then
    local old = {}
    for gone = newest - 59, math.min(newest, minute - 60) do
      old[#old + 1], old[#old + 2] = 'm' .. gone .. 'r', 'm' .. gone .. 's'
    end
    if newest > 0 and #old > 0 then redis.call('HDEL', stock, unpack(old)) end
    redis.call('HSET', stock, 'm', minute)
    shown[3] = minute
  end
  redis.call('HINCRBY', stock, 'm' .. minute .. what, units)
end

local function open(total)
  if redis.call('HSETNX', stock, 'total', total) == 1 then
    redis.call('HSET', stock, 'sold', 0, 'held', 0, 'expired', 0)
  end
end

local function reservation(id)
  local packed = redis.call('HGET', stock, 'r' .. id)
  return packed and cmsgpack.unpack(packed)
end

local function store(id, state, buyer, units, key, expiry, fence, claim)
  redis.call('HSET', stock, 'r' .. id, cmsgpack.pack({state, buyer, units, key, expiry, fence, claim}),
    'clock', clock, 'ahead', ahead)
end

-- Set units aside for a buyer; returns the reservation's fence, which is higher than any before it.
local function set_aside(id, buyer, units, key, expiry, claim)
  local fence = math.max(clock, tonumber(redis.call('HGET', stock, 'f') or 0) + 1)
  redis.call('HSET', stock, 'f', fence)
  store(id, 'h', buyer, units, key, expiry, fence, claim)
  redis.call('ZADD', holds, expiry, id)
  redis.call('HINCRBY', stock, 'held', units)
  count('r', units)
  redis.call('HINCRBY', stock, 'b' .. buyer, units)
  if key ~= '' then redis.call('HSET', stock, 'k' .. key, id) end
  return fence
end

-- Put a reservation's units back on sale and forget it.
local function put_back(id, kept)
  local buyer, units, key = kept[2], kept[3], kept[4]
  redis.call('ZREM', holds, id)
  redis.call('HDEL', stock, 'r' .. id)
  redis.call('HINCRBY', stock, kept[1] == 'h' and 'held' or 'sold', -units)
  if redis.call('HINCRBY', stock, 'b' .. buyer, -units) <= 0 then redis.call('HDEL', stock, 'b' .. buyer) end
  if key ~= '' and redis.call('HGET', stock, 'k' .. key) == id then redis.call('HDEL', stock, 'k' .. key) end
end

-- End reservations that ran out, at most 500; returns true when there are more.
local function expire()
  local over = redis.call('ZRANGEBYSCORE', holds, '-inf', clock, 'LIMIT', 0, 500)
  for _, id in ipairs(over) do
    local kept = reservation(id)
    if kept then put_back(id, kept) else redis.call('ZREM', holds, id) end
  end
  if #over > 0 then redis.call('HINCRBY', stock, 'expired', #over) end
  return #over == 500
end
