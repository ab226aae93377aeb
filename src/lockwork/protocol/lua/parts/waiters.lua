-- Waiters in order, inside a hash: h, t first and last ticket; m number of places; b first ticket that was passed over, if any;
-- s MessagePack {channel: us}, processes that left a hand-over unclaimed, since when; w<ticket> = a waiter, whose first entry is the
-- end of its place, us; i<request> = ticket.
-- A waiter whose process seems to be gone is passed over: it keeps its place, and is first again when it asks again.
-- include: now
-- include: publish
local REQUEST, CHANNEL, LOOKS, DEAF = 3, 5, 6, 10 -- where in a waiter's array these are: looks again us; its process did not listen when it asked
local DEAF_LOOK = 500 -- ms after which a waiter whose process does not listen looks again
local DEAF_LATE = 400 -- ms that it may be late; both together are less than the second that a dead waiter may cost
local FORGET = 20000000 -- us after which a silent process is forgotten: all its places have ended
local work = 20000 -- tickets that one call looks at; a place counts as 20
local heard = {} -- channel -> whether a process listens there

local line

-- Begin with the waiters of a hash, as its fields h, t, m, b, s say.
local function open_waiters(key, head, tail, count, bottom, silent)
  line = {
    key = key, head = tonumber(head or 1), tail = tonumber(tail or 0), bottom = tonumber(bottom or nil),
    silent = silent and cmsgpack.unpack(silent) or {}, stored = tail and true
  }
  line.count = tonumber(count or nil) or line.tail - line.head + 1
end

local function listening(channel)
  if heard[channel] == nil then heard[channel] = listens(channel) ~= false end
  return heard[channel]
end

-- Whether something may be handed to a waiter. One that could not be notified has promised to look soon, and is given until then.
local function present(waiter)
  local channel = waiter[CHANNEL]
  if channel == line.asking then return true end -- whatever becomes of its messages
  if line.silent[channel] then return false end
  return listening(channel) or (waiter[DEAF] and waiter[LOOKS] + DEAF_LATE * 1000 > now)
end

-- Return for how many ms something is handed to a waiter that asked for `claim`.
local function claim_of(waiter, claim)
  if listening(waiter[CHANNEL]) then return claim end
  return math.max(1, math.min(claim, math.ceil((waiter[LOOKS] - now) / 1000) + DEAF_LATE))
end

-- A process did not claim what it was handed: none of its waiters is handed anything until one of them asks.
local function unclaimed(channel)
  local silent, count = {}, 0
  for other, since in pairs(line.silent) do
    if since > now - FORGET and count < 100 then silent[other], count = since, count + 1 end
  end
  silent[channel] = now
  line.silent, line.marked, line.changed = silent, true, true
end

-- It asks, so it lives: those of its waiters that were passed over are first again.
local function asks(channel)
  line.asking = channel
  if not line.silent[channel] then return end
  line.silent[channel] = nil
  line.head = math.min(line.head, line.bottom or line.head)
  line.marked, line.changed = true, true
end

-- Remove a waiter.
local function take(ticket, request)
  redis.call('HDEL', line.key, 'w' .. ticket, 'i' .. request)
  line.count, line.changed = line.count - 1, true
end

-- A waiter that was passed over asks again: it is first, but for those before it whose process listens again, too.
local function come_back(ticket)
  if ticket < line.head then line.head, line.changed = line.bottom or ticket, true end
end

local function join()
  line.tail, line.count, line.changed = line.tail + 1, line.count + 1, true
  return line.tail
end

-- Those of its process that were passed over before it live as well, and come first: return the first of them, or the waiter itself.
local function foremost(waiter)
  for ticket = line.bottom or line.head, math.min(line.head - 1, (line.bottom or 0) + 99) do
    local packed = redis.call('HGET', line.key, 'w' .. ticket)
    local other = packed and cmsgpack.unpack(packed)
    if other and other[1] > now and other[CHANNEL] == waiter[CHANNEL] then
      line.head = ticket
      return other
    end
  end
  return waiter
end

-- Move the head to the first waiter that something may be handed to, and return it: places that have ended are taken out, those whose
-- process seems to be gone are passed over. `mine` is alive. The second value is true when this is more than one call may do.
local function front(mine)
  local size = 1
  while line.head <= line.tail do
    if work <= 0 then return nil, true end
    local names = {}
    for ticket = line.head, math.min(line.tail, line.head + size - 1) do names[#names + 1] = 'w' .. ticket end
    work = work - #names
    for _, packed in ipairs(redis.call('HMGET', line.key, unpack(names))) do
      local waiter = packed and cmsgpack.unpack(packed)
      if waiter then
        work = work - 20
        if waiter[REQUEST] == mine then return waiter end
        if waiter[1] > now then
          if present(waiter) then return foremost(waiter) end
          line.bottom = line.bottom or line.head
        else
          take(line.head, waiter[REQUEST])
        end
      end
      line.head, line.changed = line.head + 1, true
    end
    size = 100
  end
  return nil
end

-- Take out what has ended among those that were passed over: a few at once, but more than come in.
local function tidy()
  for _ = 1, 50 do
    if line.bottom and line.bottom >= line.head then line.bottom = nil end
    if not line.bottom then return end
    local packed = redis.call('HGET', line.key, 'w' .. line.bottom)
    local waiter = packed and cmsgpack.unpack(packed)
    if waiter and waiter[1] > now then return end
    if waiter then take(line.bottom, waiter[REQUEST]) end
    line.bottom, line.changed = line.bottom + 1, true
  end
end

-- Write the waiters, and further fields with them. Without waiters, no fields are left.
local function save_waiters(...)
  local bottom = line.bottom
  if bottom then tidy() end
  if line.head > line.tail and not line.bottom then line.count = 0 end
  if line.count <= 0 and select('#', ...) > 0 then line.count, line.changed = 1, true end
  if line.count <= 0 then
    if line.stored then redis.call('HDEL', line.key, 'h', 't', 'm', 'b', 's') end
    open_waiters(line.key)
  elseif line.changed then
    redis.call('HSET', line.key, 'h', line.head, 't', line.tail, 'm', line.count, ...)
    if line.bottom then
      redis.call('HSET', line.key, 'b', line.bottom)
    elseif bottom then
      redis.call('HDEL', line.key, 'b')
    end
    if line.marked then
      if next(line.silent) then
        redis.call('HSET', line.key, 's', cmsgpack.pack(line.silent))
      else
        redis.call('HDEL', line.key, 's')
      end
    end
    line.stored, line.changed, line.marked = true, nil, nil
  elseif select('#', ...) > 0 then
    redis.call('HSET', line.key, ...)
  end
end

-- Remove a request; abandoned tickets are skipped when a waiter leaves rather than when one waits.
local function leave(request)
  local ticket = tonumber(redis.call('HGET', line.key, 'i' .. request) or nil)
  if not ticket then return end
  take(ticket, request)
  for _ = 1, 100 do
    if line.head > line.tail or redis.call('HEXISTS', line.key, 'w' .. line.head) == 1 then return end
    line.head = line.head + 1
  end
end

-- There is more to do than one call may: a waiter whose process listens looks now, and goes on.
local function call_on()
  local last = math.max(line.head, line.tail - 999)
  for ticket = line.tail, last, -1 do
    local packed = redis.call('HGET', line.key, 'w' .. ticket)
    local waiter = packed and cmsgpack.unpack(packed)
    if waiter and waiter[1] > now and not line.silent[waiter[CHANNEL]] and listening(waiter[CHANNEL]) then
      publish(waiter[CHANNEL], waiter[REQUEST] .. ' look')
      return
    end
  end
end
