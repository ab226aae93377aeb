-- A barrier's hash: p parties; t last ticket; a<request> = {channel, secret} of each arrived party; g number of
-- generations that have passed; q last ticket of the generation that passed last, and b number of its parties that are
-- notified, until all are; i<request> = {generation, index} of each notified party; r<number> = {when us, generation,
-- requests...} of the parties that one call notified; n the newest and o the oldest of these numbers. places: arrived
-- requests by the end of their place, us. order: requests by ticket, from their arrival until they are notified.
-- KEYS: barrier: hash, places: zset, order: zset
-- include: now
-- include: publish
-- include: seal
local PLACE_MS = 15000 -- lifetime of an arrival unless its process calls again
local RETENTION_MS = 60000 -- passed parties are remembered for this time, in case they missed their message
local MOST_PASSED = 20000 -- passed parties remembered at most, besides the last two generations
local BATCH = 100 -- parties that one call notifies

-- Return the generation and the index of a passed request, or nil.
local function passed_as(request)
  local packed = redis.call('HGET', barrier, 'i' .. request)
  if packed then return unpack(cmsgpack.unpack(packed)) end
  local last_ticket, generation, notified = unpack(redis.call('HMGET', barrier, 'q', 'g', 'b'))
  local ticket = last_ticket and redis.call('ZSCORE', order, request)
  if not ticket or tonumber(ticket) > tonumber(last_ticket) then return nil end
  return tonumber(generation), notified + redis.call('ZRANK', order, request)
end

local function count_live()
  return redis.call('ZCOUNT', places, string.format('(%.0f', now), '+inf')
end

local function remove_arrival(request)
  redis.call('ZREM', places, request)
  redis.call('ZREM', order, request)
  redis.call('HDEL', barrier, 'a' .. request)
end

local function set_expiry()
  redis.call('PEXPIRE', barrier, 2 * RETENTION_MS)
  redis.call('PEXPIRE', places, 2 * RETENTION_MS)
  redis.call('PEXPIRE', order, 2 * RETENTION_MS)
end

-- Forget the parties of up to three old calls: more than one call adds.
local function forget_passed(generation, parties, newest, oldest)
  local first_generation = generation - math.max(2, math.floor(MOST_PASSED / parties))
  for _ = 1, 3 do
    local packed = oldest < newest and redis.call('HGET', barrier, 'r' .. oldest)
    if not packed then break end
    local record = cmsgpack.unpack(packed)
    local notified_us, old_generation = unpack(record, 1, 2)
    if old_generation >= generation - 1 or (old_generation > first_generation and notified_us > now - RETENTION_MS * 1000) then break end
    local fields = {'r' .. oldest}
    for at = 3, #record do fields[#fields + 1] = 'i' .. record[at] end
    redis.call('HDEL', barrier, unpack(fields))
    oldest = oldest + 1
  end
  redis.call('HSET', barrier, 'o', oldest)
end

-- Notify some passed parties in the order of their arrival; return the number of parties that remain to be notified.
local function notify_passed()
  local last_ticket, generation, notified, parties, oldest = unpack(redis.call('HMGET', barrier, 'q', 'g', 'b', 'p', 'o'))
  if not last_ticket then return 0 end
  generation, notified = tonumber(generation), tonumber(notified)
  local batch = redis.call('ZRANGEBYSCORE', order, '-inf', last_ticket, 'LIMIT', 0, BATCH)
  redis.call('ZREM', order, '', unpack(batch)) -- first: after a deletion, a script may write when the server is out of memory
  local record, fields = {now, generation}, {''}
  for at, request in ipairs(batch) do
    local index = notified + at - 1
    redis.call('HSET', barrier, 'i' .. request, cmsgpack.pack({generation, index}))
    local arrival = redis.call('HGET', barrier, 'a' .. request) or ''
    if arrival ~= '' then
      local channel, secret = unpack(cmsgpack.unpack(arrival))
      publish(channel, sealed(secret, request, string.format('%d', index)))
    end
    record[#record + 1] = request
    fields[#fields + 1] = 'a' .. request
  end
  redis.call('HDEL', barrier, unpack(fields))
  local number = redis.call('HINCRBY', barrier, 'n', 1)
  redis.call('HSET', barrier, 'r' .. number, cmsgpack.pack(record), 'b', notified + #batch)
  local remaining = redis.call('ZCOUNT', order, '-inf', last_ticket)
  if remaining == 0 then redis.call('HDEL', barrier, 'q', 'b') end
  forget_passed(generation, tonumber(parties), number, tonumber(oldest or 1))
  return remaining
end
