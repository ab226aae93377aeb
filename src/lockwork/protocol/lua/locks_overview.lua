-- Reads locks (also a quorum's, and those that live with queues), read-write locks and semaphores: those named, or those that one step of a scan finds.
-- KEYS: things*
-- ARGV: prefix, from, match, step, most: number
--   prefix: with its colon; step: how many keys a step looks at; most: how many holders and waiters to name of each
--   things: those to read; none for a step of the scan
-- Reply: {next cursor, {key, kind, capacity, holders not named, places not looked at, ms kept without an owner, holders, waiters}...}
--   holder: {owner, request, fence, units, ms left, ms held}; waiter: {owner, request, units, ms waited}; live ones only.
--   {key} alone was not read, because the call had enough to do: name it in another call
-- include: now
local work = 10000 -- holders and places that one call looks at, or a few more

local function ms(us) return math.max(0, math.floor(us / 1000)) end
local function left(us) return math.ceil(us / 1000) end -- up: what has a moment left is held still

local function line(key, head, tail)
  local found, last = {}, math.min(tail, head + 10 * most)
  local ticket = head
  while ticket <= last and #found < most do
    local packed = redis.call('HGET', key, 'w' .. ticket)
    local waiter = packed and cmsgpack.unpack(packed)
    if waiter and waiter[1] > now then
      found[#found + 1] = {waiter[4], waiter[3], waiter[8], ms(now - waiter[7])}
    end
    ticket = ticket + 1
  end
  work = work - (ticket - head)
  return found, math.max(0, tail - ticket + 1)
end

local function lock(key, kind)
  local held = redis.call('HMGET', key, 'o', 'r', 'f', 'd', 'h', 't', 'l', 'b')
  local holders, kept, deadline = {}, 0, math.min(tonumber(held[4] or 0), now + tonumber(held[7] or math.huge) * 1000)
  if held[1] and held[1] ~= '' and deadline > now then
    -- a fence is the time of its grant, unless that had to be raised
    holders[1] = {held[1], held[2], tonumber(held[3]), 1, left(deadline - now), ms(now - held[3])}
  elseif deadline > now then
    kept = left(deadline - now)
  end
  local waiters, more = line(key, tonumber(held[8] or held[5] or 1), tonumber(held[6] or 0))
  return {key, kind, 1, 0, more, kept, holders, waiters}
end

local function permits(key, kind)
  local state = redis.call('HMGET', key, 'n', 'k', 'h', 't', 'c', 'z', 'b')
  local now = now + math.max(tonumber(state[6] or 0), tonumber(state[5] or 0) - now) -- as in permits.lua
  local holders, count = {}, tonumber(state[2] or 0)
  work = work - math.min(count, most)
  for at = 1, math.min(count, most) do
    local id = string.match(redis.call('HGET', key, 'p' .. at) or '', '%d+$')
    local packed = id and redis.call('HGET', key, 'g' .. id)
    local held = packed and cmsgpack.unpack(packed)
    if held and held[1] > now then
      holders[#holders + 1] = {held[2], held[3], tonumber(id), held[4], left(held[1] - now), ms(now - held[5])}
    end
  end
  local waiters, more = line(key, tonumber(state[7] or state[3] or 1), tonumber(state[4] or 0))
  return {key, kind, tonumber(state[1] or 0), math.max(0, count - most), more, 0, holders, waiters}
end

local readers = {lock = lock, quorum = lock, queue = lock, rw = permits, sem = permits}
local cursor, names = '0', things
if #names == 0 then
  local step = redis.call('SCAN', from, 'MATCH', match, 'COUNT', step)
  cursor, names = step[1], step[2]
end
local reply = {cursor}
for _, key in ipairs(names) do
  local name = string.sub(key, #prefix + 1)
  local kind = string.match(name, '^{(%l+):[^}]*}$') or (string.find(name, '^{q:[^}]*}:lock:.') and 'queue')
  local read = readers[kind]
  if read and redis.call('TYPE', key)['ok'] == 'hash' then
    reply[#reply + 1] = work > 0 and read(key, kind) or {key}
    work = work - 1
  end
end
return reply
