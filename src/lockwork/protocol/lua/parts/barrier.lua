-- A barrier's state. The hash: p parties; t last ticket; a<request> = {channel, secret} of each party that has arrived; g how often it has opened;
-- q the last ticket that has passed, while not all of that generation are notified, and b how many are; i<request> = {generation,
-- index} of each party that has passed and was notified; r<number> = {when us, generation, such requests in order}; n the newest and o the
-- oldest of these that is kept. The places: requests that have arrived, by the end of their place, us; only live ones count.
-- The order: those that have arrived, or have passed and are yet to be notified, by ticket.
-- KEYS: barrier: hash, places: zset, order: zset
-- include: now
-- include: publish
-- include: seal
local PLACE = 15000 -- ms that an arrival counts unless its process asks again
local KEPT = 60000 -- ms that passed parties are remembered, for those that missed their wake-up
local MANY = 20000 -- passes remembered at most, but always those of the last two generations
local STEP = 100 -- parties that one call notifies

-- {generation, index} of a request for which the barrier has opened.
local function passed(request)
  local packed = redis.call('HGET', barrier, 'i' .. request)
  if packed then return cmsgpack.unpack(packed) end
  local opened = redis.call('HMGET', barrier, 'q', 'g', 'b')
  local ticket = opened[1] and redis.call('ZSCORE', order, request)
  if not ticket or tonumber(ticket) > tonumber(opened[1]) then return nil end
  return {tonumber(opened[2]), opened[3] + redis.call('ZRANK', order, request)}
end

local function live()
  return redis.call('ZCOUNT', places, string.format('(%.0f', now), '+inf')
end

local function drop(request)
  redis.call('ZREM', places, request)
  redis.call('ZREM', order, request)
  redis.call('HDEL', barrier, 'a' .. request)
end

local function keep()
  redis.call('PEXPIRE', barrier, 2 * KEPT)
  redis.call('PEXPIRE', places, 2 * KEPT)
  redis.call('PEXPIRE', order, 2 * KEPT)
end

-- Forget some parties that passed long ago, but more than a call adds.
local function forget(generation, parties, newest, oldest)
  local first = generation - math.max(2, math.floor(MANY / parties))
  for _ = 1, 3 do
    local packed = oldest < newest and redis.call('HGET', barrier, 'r' .. oldest)
    local old = packed and cmsgpack.unpack(packed)
    if not old or old[2] >= generation - 1 or (old[2] > first and old[1] > now - KEPT * 1000) then break end
    local fields = {'r' .. oldest}
    for at = 3, #old do fields[#fields + 1] = 'i' .. old[at] end
    redis.call('HDEL', barrier, unpack(fields))
    oldest = oldest + 1
  end
  redis.call('HSET', barrier, 'o', oldest)
end

-- Notify some of those that have passed, the first to arrive first; returns how many are left for other calls.
local function notify()
  local state = redis.call('HMGET', barrier, 'q', 'g', 'b', 'p', 'o')
  if not state[1] then return 0 end
  local generation, before = tonumber(state[2]), tonumber(state[3])
  local some = redis.call('ZRANGEBYSCORE', order, '-inf', state[1], 'LIMIT', 0, STEP)
  redis.call('ZREM', order, '', unpack(some)) -- first: a script that has deleted may go on writing when the server is out of memory
  local record, fields = {now, generation}, {''}
  for at, request in ipairs(some) do
    local index = before + at - 1
    redis.call('HSET', barrier, 'i' .. request, cmsgpack.pack({generation, index}))
    local arrived = redis.call('HGET', barrier, 'a' .. request) or ''
    if arrived ~= '' then
      local waiter = cmsgpack.unpack(arrived)
      publish(waiter[1], sealed(waiter[2], request, string.format('%d', index)))
    end
    record[#record + 1] = request
    fields[#fields + 1] = 'a' .. request
  end
  redis.call('HDEL', barrier, unpack(fields))
  local number = redis.call('HINCRBY', barrier, 'n', 1)
  redis.call('HSET', barrier, 'r' .. number, cmsgpack.pack(record), 'b', before + #some)
  local left = redis.call('ZCOUNT', order, '-inf', state[1])
  if left == 0 then redis.call('HDEL', barrier, 'q', 'b') end
  forget(generation, tonumber(state[4]), number, tonumber(state[5] or 1))
  return left
end
