-- Takes due entries, oldest first; can stand in line when there are none.
-- KEYS: <dq>
-- ARGV: request, count: number, channel
--   channel: '': do not wait
-- Out of memory: goes on
-- Reply: {us until the caller should look again if it waits and is not told, then per entry: id, due us}
-- Invariants: an entry is taken once; a request that took something gets the same again; nothing is taken early
-- include: now
-- include: dq

local function answer(taken)
  local reply = {0}
  for at = 1, #taken do reply[at + 1] = taken[at] end
  return reply
end

local done = known(request)
if done then return answer(cmsgpack.unpack(done)) end

local found = redis.call('ZRANGEBYSCORE', entries, '-inf', now, 'WITHSCORES', 'LIMIT', 0, count)
if #found > 0 then
  local ids = {}
  for at = 1, #found, 2 do
    ids[#ids + 1] = found[at]
    found[at + 1] = math.floor(tonumber(found[at + 1]))
  end
  redis.call('ZREM', entries, unpack(ids))
  remember(request, cmsgpack.pack(found), #ids)
end
local waited = redis.call('HGET', books, 'w' .. request)
local first = redis.call('ZRANGE', entries, 0, 0, 'WITHSCORES')
if #found > 0 or channel == '' then
  -- somebody else in line must know what comes next, because this one does not wait for it any more
  if leave(request) and first[1] or (first[1] and tonumber(first[2]) <= now) then wake(1) end
  return answer(found)
end

-- who comes is behind all who wait, although the clock may have been set back since they came
local newest = redis.call('ZRANGE', line, -1, -1, 'WITHSCORES')[2]
local since = waited and cmsgpack.unpack(waited)[3] or math.max(now, (tonumber(newest) or 0) + 1)
redis.call('HSET', books, 'w' .. request, cmsgpack.pack({channel, now + PLACE * 1000, since}))
redis.call('ZADD', line, since, request)
redis.call('PEXPIRE', line, 2 * KEPT)
redis.call('PEXPIRE', books, 2 * KEPT)
for _, ahead in ipairs(redis.call('ZRANGE', line, 0, 2)) do
  local packed = redis.call('HGET', books, 'w' .. ahead)
  local place = packed and cmsgpack.unpack(packed)
  if not place or place[2] <= now then
    leave(ahead)
  elseif place[2] > now + PLACE * 1000 then -- the clock was set back: it lasts no longer than a place does
    place[2] = now + PLACE * 1000
    redis.call('HSET', books, 'w' .. ahead, cmsgpack.pack(place))
  end
end
-- The first in line looks when the next entry is due, the second and third a little later, in case those before them died; and so do
-- the first of the second and third process, in case a whole process died. The others are told when they have moved up.
local look, rank = LOOK * 1000, redis.call('ZRANK', line, request)
if first[1] and rank > 2 and rank < 20 then
  local channels, processes = {}, 0
  for _, ahead in ipairs(redis.call('ZRANGE', line, 0, rank - 1)) do
    local packed = redis.call('HGET', books, 'w' .. ahead)
    local other = packed and cmsgpack.unpack(packed)[1] or ''
    if not channels[other] then channels[other], processes = true, processes + 1 end
  end
  if not channels[channel] then rank = processes end
end
if first[1] and rank <= 2 then
  look = math.min(look, math.max(1, tonumber(first[2]) - now) + rank * 50000)
end
return {look}
