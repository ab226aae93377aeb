-- Arrives at a barrier, or refreshes the arrival when called again; the last party lets all parties pass.
-- KEYS: <synchronizers/barrier>
-- ARGV: parties: number, request, channel, secret?
--   secret: seals the message to the caller
-- Reply: {PASSED, index, generation, remaining} now or before; {WAITING, arrived, generation, remaining};
--   {OTHER_PARTIES, parties, 0, 0} the barrier has another number of parties, and some have arrived. remaining: passed
--   parties still to notify; call again while there are any
-- Codes: passed=1, waiting=0, other_parties=-1
-- Invariants: each generation passes exactly its parties, all live at that moment; no request passes twice
-- include: now
-- include: synchronizers/barrier
local remaining = notify_passed()
local passed_generation, index = passed_as(request)
if passed_generation then return {PASSED, index, passed_generation, remaining} end

for _, expired in ipairs(redis.call('ZRANGEBYSCORE', places, '-inf', now, 'LIMIT', 0, 500)) do
  if expired ~= request then remove_arrival(expired) end
end
-- a place is further ahead than its lifetime only if the clock was set back: shorten it to a whole lifetime from now
local place_ends = now + PLACE_MS * 1000
for _, other in ipairs(redis.call('ZRANGEBYSCORE', places, string.format('(%.0f', place_ends), '+inf', 'LIMIT', 0, 500)) do
  redis.call('ZADD', places, place_ends, other)
end
local stored_parties, generation = unpack(redis.call('HMGET', barrier, 'p', 'g'))
generation = tonumber(generation or 0)
local own_place = tonumber(redis.call('ZSCORE', places, request) or 0)
local others = count_live() - (own_place > now and 1 or 0)
if others > 0 and not stored_parties then
  -- the places belong to a state that was deleted
  redis.call('DEL', places, order)
  own_place, others = 0, 0
end
if others > 0 and tonumber(stored_parties) ~= parties then return {OTHER_PARTIES, tonumber(stored_parties), 0, 0} end

local opens = others + 1 >= parties
local expired = redis.call('ZCOUNT', places, '-inf', now) - (own_place > 0 and own_place <= now and 1 or 0)
if opens and expired + remaining > 0 then
  -- more places expired than one call removes, or parties of the last generation remain to be notified: a later call
  -- opens the barrier
  if own_place > now then redis.call('ZADD', places, place_ends, request) end
  return {WAITING, others, generation, expired + remaining}
end
if not redis.call('ZSCORE', order, request) then
  redis.call('ZADD', order, redis.call('HINCRBY', barrier, 't', 1), request)
end
redis.call('HSET', barrier, 'p', parties, 'a' .. request, opens and '' or cmsgpack.pack({channel, secret or ''}))
if not opens then
  redis.call('ZADD', places, place_ends, request)
  set_expiry()
  return {WAITING, others + 1, generation, 0}
end

-- all parties have arrived: the index of each is its rank in the order of arrival
redis.call('UNLINK', places)
redis.call('HSET', barrier, 'g', generation + 1, 'q', redis.call('HGET', barrier, 't'), 'b', 0)
passed_generation, index = passed_as(request)
remaining = notify_passed()
set_expiry()
return {PASSED, index, passed_generation, remaining}
