-- Arrives at a barrier, or stays arrived when called again; the last of the parties lets all of them pass.
-- KEYS: <barrier>
-- ARGV: parties: number, request, channel, secret?
--   secret: seals the message to the caller
-- Reply: {1, index, generation, left} passed (now or before), and how many are left to notify; {0, arrived, generation, left} not
--   yet; {-1, parties, 0, 0} the barrier is for another number of parties, and some have arrived. While some are left, send it again
-- Invariants: each generation passes exactly its parties, all of them live at that moment; no request passes twice
-- include: now
-- include: barrier
local left = notify()
local mine = passed(request)
if mine then return {1, mine[2], mine[1], left} end

for _, dead in ipairs(redis.call('ZRANGEBYSCORE', places, '-inf', now, 'LIMIT', 0, 500)) do
  if dead ~= request then drop(dead) end
end
-- a place lies further ahead than it lasts only when the clock was set back: then it lasts so long from now on
local last = now + PLACE * 1000
for _, other in ipairs(redis.call('ZRANGEBYSCORE', places, string.format('(%.0f', last), '+inf', 'LIMIT', 0, 500)) do
  redis.call('ZADD', places, last, other)
end
local books = redis.call('HMGET', barrier, 'p', 'g')
local generation = tonumber(books[2] or 0)
local place = tonumber(redis.call('ZSCORE', places, request) or 0)
local others = live() - (place > now and 1 or 0)
if others > 0 and not books[1] then
  -- the places belong to books that are gone
  redis.call('DEL', places, order)
  place, others = 0, 0
end
if others > 0 and tonumber(books[1]) ~= parties then return {-1, tonumber(books[1]), 0, 0} end

local opens = others + 1 >= parties
local gone = redis.call('ZCOUNT', places, '-inf', now) - (place > 0 and place <= now and 1 or 0)
if opens and gone + left > 0 then
  -- more have died than one call takes out, or the last generation is being notified: it opens in a later call
  if place > now then redis.call('ZADD', places, last, request) end
  return {0, others, generation, gone + left}
end
if not redis.call('ZSCORE', order, request) then
  redis.call('ZADD', order, redis.call('HINCRBY', barrier, 't', 1), request)
end
redis.call('HSET', barrier, 'p', parties, 'a' .. request, opens and '' or cmsgpack.pack({channel, secret or ''}))
if not opens then
  redis.call('ZADD', places, last, request)
  keep()
  return {0, others + 1, generation, 0}
end

-- all are here: everybody's index is their place in the order of arrival
redis.call('UNLINK', places)
redis.call('HSET', barrier, 'g', generation + 1, 'q', redis.call('HGET', barrier, 't'), 'b', 0)
mine = passed(request)
left = notify()
keep()
return {1, mine[2], mine[1], left}
