-- A barrier's books. The hash: p parties; t last ticket; a<request> = {ticket, channel, secret} of who has arrived; g how often it has
-- opened; i<request> = {generation, index} of who has passed; r<generation> = {when us, its requests in order}; o the oldest
-- of these that is kept. The places: requests that have arrived, by the end of their place, us; only live ones count.
local barrier, places = KEYS[1], KEYS[2]
local PLACE = 15000 -- ms that an arrival counts unless its process asks again
local KEPT = 60000 -- ms that it is remembered who passed, for those who missed their wake-up
local MANY = 20000 -- passes remembered at most, but always those of the last two generations
redis.call('HLEN', barrier)
redis.call('ZCARD', places)

local function passed(request)
  local packed = redis.call('HGET', barrier, 'i' .. request)
  return packed and cmsgpack.unpack(packed)
end

local function live()
  return redis.call('ZCOUNT', places, string.format('(%.0f', now), '+inf')
end

local function drop(request)
  redis.call('ZREM', places, request)
  redis.call('HDEL', barrier, 'a' .. request)
end

local function keep()
  redis.call('PEXPIRE', barrier, 2 * KEPT)
  redis.call('PEXPIRE', places, 2 * KEPT)
end
