-- Callers that wait for units, in the stock's hash: h, t first and last ticket, if anybody waits; i<id> = ticket;
-- w<ticket> = {end of the place us, id, channel, buyer, units, hold ms, key, limit, looks again us, deaf: its process did not listen when it asked}
-- KEYS: stock
-- include: stock
-- include: publish
local PLACE = 15000 -- ms that a waiter's place lasts unless its process asks again
local CLAIM = 4000 -- ms that units which were handed over are held until their buyer's process claims them
local LOOK = 5000 -- ms after which every waiter looks again without a message
local SCAN = 500 -- tickets that are looked at in one call; more, of abandoned ones
local DEAF_LOOK = 500 -- ms after which a waiter whose process does not listen looks again
local DEAF_LATE = 400 -- ms that it may be late
local heard = {} -- channel -> whether a process listens there

local function listening(channel)
  if heard[channel] == nil then heard[channel] = listens(channel) ~= false end
  return heard[channel]
end

-- Remove a ticket, and advance the first one.
local function drop(ticket, id)
  redis.call('HDEL', stock, 'w' .. ticket, 'i' .. id)
  local range = redis.call('HMGET', stock, 'h', 't')
  local head, tail = tonumber(range[1]), tonumber(range[2])
  if head < ticket then return end
  local last = math.min(tail, head + SCAN)
  while head <= last and redis.call('HEXISTS', stock, 'w' .. head) == 0 do head = head + 1 end
  if head > tail then redis.call('HDEL', stock, 'h', 't') else redis.call('HSET', stock, 'h', head) end
end

local function leave(id)
  local ticket = redis.call('HGET', stock, 'i' .. id)
  if ticket then drop(tonumber(ticket), id) end
end

-- Notify the first waiter to look: it watches over the reservation that runs out next.
local function alert()
  local range = redis.call('HMGET', stock, 'h', 't')
  if not range[2] then return end
  for ticket = tonumber(range[1]), math.min(tonumber(range[2]), range[1] + 99) do
    local packed = redis.call('HGET', stock, 'w' .. ticket)
    local waiter = packed and cmsgpack.unpack(packed)
    if waiter and waiter[1] > clock and listening(waiter[3]) and tell(waiter[3], waiter[2]) > 0 then return end
  end
end

-- For how many ms units may be handed to a waiter. Nothing if its process seems to be gone: it keeps its place, and gets them when it
-- asks. One that could not be notified has promised to look soon, and is given until then.
local function claim_of(waiter)
  if listening(waiter[3]) then return CLAIM end
  local left = waiter[10] and math.ceil((waiter[9] - clock) / 1000) + DEAF_LATE or 0
  return left > 0 and math.min(CLAIM, left) or nil
end

-- Hand what is on sale to the waiters whose wish can be met, in order; at most 20 a call.
local function serve()
  local found = redis.call('HMGET', stock, 'h', 't', 'total', 'sold', 'held')
  if not found[2] then return end
  local free, handed = found[3] - found[4] - found[5], 0
  local ticket, tail, work, places = tonumber(found[1]), tonumber(found[2]), 20 * SCAN, {}
  for at = ticket, tail do
    if free <= 0 or handed == 20 or work <= 0 then break end
    if #places == 0 then
      local names = {}
      for next = at, math.min(tail, at + 49) do names[#names + 1] = 'w' .. next end
      places, ticket = redis.call('HMGET', stock, unpack(names)), at
    end
    local packed = places[at - ticket + 1]
    if at - ticket == 49 then places = {} end
    local waiter = packed and cmsgpack.unpack(packed)
    local claim = waiter and waiter[1] > clock and waiter[5] <= free and claim_of(waiter)
    work = work - (waiter and 20 or 1)
    if waiter and waiter[1] <= clock then
      drop(at, waiter[2])
    elseif claim then
      local id, buyer, units, hold, key, limit = waiter[2], waiter[4], waiter[5], waiter[6], waiter[7], waiter[8]
      local has = limit > 0 and tonumber(redis.call('HGET', stock, 'b' .. buyer) or 0) or 0
      local met = key ~= '' and redis.call('HEXISTS', stock, 'k' .. key) == 1
      if met or limit == 0 or has + units <= limit then
        drop(at, id)
        -- a waiter that meets a reservation of its key, made meanwhile, is only notified
        if not met then
          set_aside(id, buyer, units, key, clock + math.min(claim, hold) * 1000, hold)
          free, handed = free - units, handed + 1
        end
        publish(waiter[3], id)
      end
    end
  end
  if handed > 0 then alert() end
end
