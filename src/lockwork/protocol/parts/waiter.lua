-- A waiter of a lock, of permits or of a stock: field w<ticket> of the hash, a MessagePack array. Only a stock's waiter
-- has the last two entries.
local function unpack_waiter(packed)
  local ends_at_us, claim_ms, request, owner, channel, next_check_us, since_us, units, secret, was_unsubscribed, key, limit =
    unpack(cmsgpack.unpack(packed), 1, 12)
  return {
    ends_at_us = ends_at_us, claim_ms = claim_ms, request = request, owner = owner, channel = channel, next_check_us = next_check_us,
    since_us = since_us, units = units, secret = secret, was_unsubscribed = was_unsubscribed, key = key, limit = limit
  }
end

-- Return the end of a waiter's place, without the cost of a table.
local function ends_at_us(packed)
  return cmsgpack.unpack(packed)[1]
end

local function pack_waiter(waiter)
  return cmsgpack.pack({
    waiter.ends_at_us, waiter.claim_ms, waiter.request, waiter.owner, waiter.channel, waiter.next_check_us,
    waiter.since_us, waiter.units, waiter.secret, waiter.was_unsubscribed, waiter.key, waiter.limit
  })
end

-- Return the waiter with a ticket, or false if it left.
local function read_waiter(hash, ticket)
  local packed = redis.call('HGET', hash, 'w' .. ticket)
  return packed and unpack_waiter(packed)
end
