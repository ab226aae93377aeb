-- Reads locks (also of quorums and of queues), read-write locks and semaphores.
-- Flags: no-writes
-- KEYS: things*
-- ARGV: prefix, most: number, contended: flag
--   prefix: with its colon; most: maximum number of holders and of waiters to list for each; contended: skip locks
--     without waiters
-- Reply: {{key, kind, capacity, holders not listed, places not read, ms until a minimum hold without an owner ends,
--   holders, waiters}...}
--   holder: {owner, request, fence, units, ms left, ms held}; waiter: {owner, request, units, ms waited}; live ones
--     only.
--   {key} alone: not read, because the call had used its budget; read it with another call
-- include: now
-- include: waiter
local budget = 10000 -- holders and places that one call reads, or a few more

local function elapsed_ms(us) return math.max(0, math.floor(us / 1000)) end
local function remaining_ms(us) return math.ceil(us / 1000) end -- rounded up: a lock with a moment left is still held

local function list_waiters(key, head, tail)
  local rows, last = {}, math.min(tail, head + 10 * most)
  local ticket = head
  while ticket <= last and #rows < most do
    local waiter = read_waiter(key, ticket)
    if waiter and waiter.ends_at_us > now then
      rows[#rows + 1] = {waiter.owner, waiter.request, waiter.units, elapsed_ms(now - waiter.since_us)}
    end
    ticket = ticket + 1
  end
  budget = budget - (ticket - head)
  return rows, math.max(0, tail - ticket + 1)
end

local function read_lock(key, kind)
  local owner, request, fence, deadline, head, tail, lease, first_skipped =
    unpack(redis.call('HMGET', key, 'o', 'r', 'f', 'd', 'h', 't', 'l', 'b'))
  head, tail = tonumber(first_skipped or head or 1), tonumber(tail or 0)
  if contended and tail < head then return end
  local holders, minimum_ms = {}, 0
  deadline = math.min(tonumber(deadline or 0), now + tonumber(lease or math.huge) * 1000)
  if owner and owner ~= '' and deadline > now then
    -- a fence is the time of its grant, unless the clock was set back
    holders = {{owner, request, tonumber(fence), 1, remaining_ms(deadline - now), elapsed_ms(now - fence)}}
  elseif deadline > now then
    minimum_ms = remaining_ms(deadline - now)
  end
  local waiters, unread = list_waiters(key, head, tail)
  return {key, kind, 1, 0, unread, minimum_ms, holders, waiters}
end

local function read_permits(key, kind)
  local capacity, count, head, tail, newest, ahead, first_skipped = unpack(redis.call('HMGET', key, 'n', 'k', 'h', 't', 'c', 'z', 'b'))
  head, tail, count = tonumber(first_skipped or head or 1), tonumber(tail or 0), tonumber(count or 0)
  if contended and tail < head then return end
  local now = now + math.max(tonumber(ahead or 0), tonumber(newest or 0) - now) -- see permits/parts/permits.lua
  local holders = {}
  budget = budget - math.min(count, most)
  for at = 1, math.min(count, most) do
    local id = string.match(redis.call('HGET', key, 'p' .. at) or '', '%d+$')
    local packed = id and redis.call('HGET', key, 'g' .. id)
    if packed then
      local deadline, owner, request, units, since_us = unpack(cmsgpack.unpack(packed))
      if deadline > now then
        holders[#holders + 1] = {owner, request, tonumber(id), units, remaining_ms(deadline - now), elapsed_ms(now - since_us)}
      end
    end
  end
  local waiters, unread = list_waiters(key, head, tail)
  return {key, kind, tonumber(capacity or 0), math.max(0, count - most), unread, 0, holders, waiters}
end

local readers = {lock = read_lock, quorum = read_lock, queue = read_lock, rw = read_permits, sem = read_permits}
local reply = {}
for _, key in ipairs(things) do
  local name = string.sub(key, #prefix + 1)
  local kind = string.match(name, '^{(%l+):[^}]*}$') or (string.find(name, '^{q:[^}]*}:lock:.') and 'queue')
  local read = readers[kind]
  if read and redis.call('TYPE', key)['ok'] == 'hash' then
    if budget > 0 then
      reply[#reply + 1] = read(key, kind)
    else
      reply[#reply + 1] = {key}
    end
    budget = budget - 1
  end
end
return reply
