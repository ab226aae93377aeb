-- The state of permits, one hash for any number of holders.
-- n capacity, u units in use, f last fence, e latest deadline of any holder (us), k holders; h, t, m, b, s, w<ticket>, i<request> the
-- line, see places.lua and permits_line.lua;
-- c newest time that was written (us), z how far this state's clock is ahead of the server's (us);
-- g<fence> = {deadline us, owner, request, units, since us, channel}, the last only until what was handed over is claimed; r<request> =
-- fence of its grant;
-- p<1..k> = 'key fence', the holders as a heap: a key is the holder's deadline, which may have grown since; x<fence> = place
-- include: now
-- include: lifetimes
-- include: waiters
-- KEYS: permits
local PLACE = 5000 -- ms that a waiter's place lasts after the time at which its process meant to look again
local found = redis.call('HMGET', permits, 'n', 'u', 'f', 'e', 'k', 'h', 't', 'm', 'b', 's', 'c', 'z')
local capacity, used, last, latest = tonumber(found[1] or 0), tonumber(found[2] or 0), tonumber(found[3] or 0), tonumber(found[4] or 0)
local count = tonumber(found[5] or 0)
-- Where the server's clock is set back, the state's goes on: so no deadline ever lies further ahead than its own length.
local ahead = math.max(tonumber(found[12] or 0), tonumber(found[11] or 0) - now)
now = now + ahead
open_waiters(permits, unpack(found, 6, 10))
local soonest -- the earliest deadline of all holders (us), once sweep() has looked

local function save()
  if count == 0 then used, latest = 0, 0 end
  redis.call('HSET', permits, 'n', capacity, 'u', used, 'f', last, 'e', latest, 'k', count, 'c', now, 'z', ahead)
  if line.stored or line.count > 0 then save_waiters() end
  local left = 0
  if count > 0 or line.count > 0 then left = math.max(math.ceil((latest - now) / 1000), WAITER) end
  -- the last fence is needed until the server's clock has passed it
  redis.call('PEXPIRE', permits, math.max(left, math.ceil((last - now + ahead) / 1000)) + MARGIN)
end

local function parsed(entry)
  local key, id = string.match(entry, '^(%d+) (%d+)$')
  return tonumber(key), id
end

local function put(at, entry)
  redis.call('HSET', permits, 'p' .. at, entry, 'x' .. string.match(entry, '%d+$'), at)
end

local function rise(at, key, entry)
  while at > 1 do
    local above = math.floor(at / 2)
    local other = redis.call('HGET', permits, 'p' .. above)
    if parsed(other) <= key then break end
    put(at, other)
    at = above
  end
  put(at, entry)
end

local function sink(at, key, entry)
  while 2 * at <= count do
    local child = 2 * at
    local pair = redis.call('HMGET', permits, 'p' .. child, 'p' .. (child + 1))
    local least, lower = parsed(pair[1]), pair[1]
    if pair[2] and parsed(pair[2]) < least then
      least, lower, child = parsed(pair[2]), pair[2], child + 1
    end
    if least >= key then break end
    put(at, lower)
    at = child
  end
  put(at, entry)
end

local function grant(owner, request, ms, units, channel)
  last = math.max(last + 1, now)
  local ends = now + ms * 1000
  local id = string.format('%.0f', last)
  latest, used, count = math.max(latest, ends), used + units, count + 1
  if soonest then soonest = math.min(soonest, ends) end
  redis.call('HSET', permits, 'g' .. id, cmsgpack.pack({ends, owner, request, units, now, channel}), 'r' .. request, id)
  rise(count, ends, string.format('%.0f %s', ends, id))
  return last, ends
end

local function holder(id)
  local packed = id and redis.call('HGET', permits, 'g' .. id)
  return packed and cmsgpack.unpack(packed)
end

-- Take a holder out of the state; its units are free.
local function drop(id, held)
  local at = tonumber(redis.call('HGET', permits, 'x' .. id))
  local moved = redis.call('HGET', permits, 'p' .. count)
  redis.call('HDEL', permits, 'g' .. id, 'r' .. held[3], 'x' .. id, 'p' .. count)
  used, count = used - held[4], count - 1
  if at > count then return end
  local key = parsed(moved)
  if at > 1 and parsed(redis.call('HGET', permits, 'p' .. math.floor(at / 2))) > key then
    rise(at, key, moved)
  else
    sink(at, key, moved)
  end
end

-- Holders whose deadline has passed lose their units; then `soonest` is known. At most 100 steps a call: when there would be
-- more, it is now. A step may also go to a holder that has renewed.
local lapsed = {} -- their owners
local function sweep()
  soonest = math.huge
  for _ = 1, 100 do
    if count == 0 then return end
    local key, id = parsed(redis.call('HGET', permits, 'p1'))
    local held = holder(id)
    if held[1] <= now then
      drop(id, held)
      lapsed[#lapsed + 1] = held[2]
      if held[6] then unclaimed(held[6]) end
    elseif held[1] > key then
      sink(1, held[1], string.format('%.0f %s', held[1], id))
    else
      soonest = key
      return
    end
  end
  soonest = now
end
