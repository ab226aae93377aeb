-- Arrives at a barrier, or stays arrived when called again; the last of the parties lets all of them pass.
-- KEYS: barrier, places
-- ARGV: parties, request, channel, secret that seals the message to it
-- Reply: {1, index, generation} passed (now or before); {0, arrived, generation} not yet; {-1, parties, 0} the barrier is for
--   another number of parties, and some have arrived
-- Invariants: each generation passes exactly its parties, all of them live at that moment; no request passes twice
-- include: now
-- include: barrier
-- include: publish
-- include: seal
local parties, request = tonumber(ARGV[1]), ARGV[2]
local mine = passed(request)
if mine then return {1, mine[2], mine[1]} end

for _, dead in ipairs(redis.call('ZRANGEBYSCORE', places, '-inf', now, 'LIMIT', 0, 500)) do
  if dead ~= request then drop(dead) end
end
-- a place lies further ahead than it lasts only when the clock was set back: then it lasts so long from now on
local last = now + PLACE * 1000
for _, other in ipairs(redis.call('ZRANGEBYSCORE', places, string.format('(%.0f', last), '+inf', 'LIMIT', 0, 500)) do
  redis.call('ZADD', places, last, other)
end
local books = redis.call('HMGET', barrier, 'p', 'g', 'o')
local generation = tonumber(books[2] or 0)
local place = tonumber(redis.call('ZSCORE', places, request) or 0)
local others = live() - (place > now and 1 or 0)
if others > 0 and not books[1] then
  -- the places belong to books that are gone
  redis.call('DEL', places)
  place, others = 0, 0
end
if others > 0 and tonumber(books[1]) ~= parties then return {-1, tonumber(books[1]), 0} end

if others + 1 < parties then
  if redis.call('HEXISTS', barrier, 'a' .. request) == 0 then
    local ticket = redis.call('HINCRBY', barrier, 't', 1)
    redis.call('HSET', barrier, 'a' .. request, cmsgpack.pack({ticket, ARGV[3], ARGV[4] or ''}))
  end
  redis.call('HSET', barrier, 'p', parties)
  redis.call('ZADD', places, last, request)
  keep()
  return {0, others + 1, generation}
end

-- all are here: everybody's index is their place in the order of arrival
generation = generation + 1
local group, index = {}, nil
for _, other in ipairs(redis.call('ZRANGEBYSCORE', places, string.format('(%.0f', now), '+inf')) do
  if other ~= request then
    local arrived = cmsgpack.unpack(redis.call('HGET', barrier, 'a' .. other))
    group[#group + 1] = {arrived[1], other, arrived[2], arrived[3] or ''}
  end
end
local before = redis.call('HGET', barrier, 'a' .. request)
group[#group + 1] = {before and cmsgpack.unpack(before)[1] or math.huge, request, ''}
table.sort(group, function(one, other) return one[1] < other[1] end)
local record = {now}
for at, member in ipairs(group) do
  drop(member[2])
  redis.call('HSET', barrier, 'i' .. member[2], cmsgpack.pack({generation, at - 1}))
  record[at + 1] = member[2]
  if member[2] == request then
    index = at - 1
  else
    publish(member[3], sealed(member[4], member[2], string.format('%d', at - 1)))
  end
end
redis.call('HSET', barrier, 'r' .. generation, cmsgpack.pack(record), 'g', generation, 'p', parties)

-- forget who passed long ago: at most three generations a call, while a call adds one
local oldest = tonumber(books[3] or 1)
local first = generation - math.max(2, math.floor(MANY / parties))
for _ = 1, 3 do
  local packed = oldest < generation - 1 and redis.call('HGET', barrier, 'r' .. oldest)
  local old = packed and cmsgpack.unpack(packed)
  if not old or (oldest > first and old[1] > now - KEPT * 1000) then break end
  for at = 2, #old do redis.call('HDEL', barrier, 'i' .. old[at]) end
  redis.call('HDEL', barrier, 'r' .. oldest)
  oldest = oldest + 1
end
redis.call('HSET', barrier, 'o', oldest)
keep()
return {1, index, generation}
