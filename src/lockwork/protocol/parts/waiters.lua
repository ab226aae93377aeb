-- The waiters of a lock or of permits in the order of their tickets, inside a hash: h, t first and last ticket; m
-- number of places; b first skipped ticket; s MessagePack {channel: us}, unresponsive processes and since when;
-- w<ticket> a waiter; i<request> its ticket. A waiter of an unresponsive process is skipped. It keeps its place, and is
-- first again when its process calls.
-- include: now
-- include: waiter
-- include: receivers
local FORGET_US = 20000000 -- an unresponsive process is forgotten after this time, because all of its places have ended
local budget = 20000 -- tickets that one call may read; a waiter costs 20
local waiters

-- Open the waiters of a hash with the values of its fields h, t, m, b, s.
-- read: by ticket, waiters that the script has read already
local function open_waiters(key, head, tail, count, first_skipped, unresponsive, read)
  waiters = {
    read = read or {}, leaving = {},
    key = key, head = tonumber(head or 1), tail = tonumber(tail or 0), first_skipped = tonumber(first_skipped or nil),
    unresponsive = unresponsive and cmsgpack.unpack(unresponsive) or {}, stored = tail and true
  }
  waiters.count = tonumber(count or nil) or waiters.tail - waiters.head + 1
end

local function can_receive(waiter)
  if waiter.channel == waiters.caller then return true end
  return not waiters.unresponsive[waiter.channel] and is_reachable(waiter, now)
end

-- Skip all waiters of a process that did not claim a grant, until one of them calls.
local function mark_unresponsive(channel)
  local unresponsive, count = {}, 0
  for other, since_us in pairs(waiters.unresponsive) do
    if since_us > now - FORGET_US and count < 100 then unresponsive[other], count = since_us, count + 1 end
  end
  unresponsive[channel] = now
  waiters.unresponsive, waiters.unresponsive_changed, waiters.changed = unresponsive, true, true
end

-- Restore the places of the caller's process if they were skipped.
local function mark_alive(channel)
  waiters.caller = channel
  if not waiters.unresponsive[channel] then return end
  waiters.unresponsive[channel] = nil
  waiters.head = math.min(waiters.head, waiters.first_skipped or waiters.head)
  waiters.unresponsive_changed, waiters.changed = true, true
end

local function remove_waiter(ticket, request)
  redis.call('HDEL', waiters.key, 'w' .. ticket, 'i' .. request)
  waiters.count, waiters.changed = waiters.count - 1, true
end

-- Remove the first waiter; save_waiters deletes its fields.
local function remove_head(request)
  waiters.leaving = {'w' .. waiters.head, 'i' .. request}
  waiters.head, waiters.count, waiters.changed = waiters.head + 1, waiters.count - 1, true
end

-- A skipped waiter that calls again is first, after earlier skipped waiters of processes that are alive.
local function restore_place(ticket)
  if ticket < waiters.head then waiters.head, waiters.changed = waiters.first_skipped or ticket, true end
end

local function new_ticket()
  waiters.tail, waiters.count, waiters.changed = waiters.tail + 1, waiters.count + 1, true
  return waiters.tail
end

-- Skipped waiters of the same process are alive, too: return the first of them, or the waiter.
local function first_alive_of_same_process(waiter)
  local first = waiters.first_skipped or 0
  for ticket = waiters.first_skipped or waiters.head, math.min(waiters.head - 1, first + 99) do
    local skipped = read_waiter(waiters.key, ticket)
    if skipped and skipped.ends_at_us > now and skipped.channel == waiter.channel then
      waiters.head = ticket
      return skipped
    end
  end
  return waiter
end

-- Move the head to the first waiter that can receive a grant, and return it; expired waiters are removed, unresponsive
-- ones skipped. The caller, `own_request`, is alive. The second value is true when the call has used its budget.
local function advance_to_first_live(own_request)
  local size = 1
  while waiters.head <= waiters.tail do
    if budget <= 0 then return nil, true end
    local batch = {waiters.read[waiters.head]}
    if not batch[1] then
      local names = {}
      for ticket = waiters.head, math.min(waiters.tail, waiters.head + size - 1) do names[#names + 1] = 'w' .. ticket end
      batch = redis.call('HMGET', waiters.key, unpack(names))
    end
    budget = budget - #batch
    for _, packed in ipairs(batch) do
      local waiter = packed and unpack_waiter(packed)
      if waiter then
        budget = budget - 20
        if waiter.request == own_request then return waiter end
        if waiter.ends_at_us > now then
          if can_receive(waiter) then return first_alive_of_same_process(waiter) end
          waiters.first_skipped = waiters.first_skipped or waiters.head
        else
          remove_waiter(waiters.head, waiter.request)
        end
      end
      waiters.head, waiters.changed = waiters.head + 1, true
    end
    size = 100
  end
  return nil
end

-- Remove some expired skipped waiters: more than one call adds.
local function remove_expired_skipped()
  for _ = 1, 50 do
    local ticket = waiters.first_skipped
    if ticket and ticket >= waiters.head then waiters.first_skipped, ticket = nil, nil end
    if not ticket then return end
    local waiter = read_waiter(waiters.key, ticket)
    if waiter and waiter.ends_at_us > now then return end
    if waiter then remove_waiter(ticket, waiter.request) end
    waiters.first_skipped, waiters.changed = ticket + 1, true
  end
end

-- Write the waiters, together with further fields of the hash. Without waiters, delete their fields. Deletions come
-- first, because after a deletion, a script may continue to write when the server is out of memory.
local function save_waiters(...)
  local had_skipped = waiters.first_skipped
  if had_skipped then remove_expired_skipped() end
  if waiters.head > waiters.tail and not waiters.first_skipped then waiters.count = 0 end
  local deleted, fields = waiters.leaving, {...}
  local function delete(name) deleted[#deleted + 1] = name end
  local function write(name, value) fields[#fields + 1], fields[#fields + 2] = name, value end
  if waiters.count <= 0 then
    if waiters.stored then
      for _, name in ipairs({'h', 't', 'm', 'b', 's'}) do delete(name) end
    end
  elseif waiters.changed then
    write('h', waiters.head)
    write('t', waiters.tail)
    write('m', waiters.count)
    if waiters.first_skipped then write('b', waiters.first_skipped) elseif had_skipped then delete('b') end
    if waiters.unresponsive_changed then
      if next(waiters.unresponsive) then write('s', cmsgpack.pack(waiters.unresponsive)) else delete('s') end
    end
  end
  if #deleted > 0 then redis.call('HDEL', waiters.key, unpack(deleted)) end
  if #fields > 0 then redis.call('HSET', waiters.key, unpack(fields)) end
  if waiters.count <= 0 then
    open_waiters(waiters.key)
  else
    waiters.leaving, waiters.stored, waiters.changed, waiters.unresponsive_changed = {}, true, nil, nil
  end
end

-- Write the place of a waiter.
local function save_waiter(ticket, request, packed)
  if waiters.count <= 0 then waiters.count, waiters.changed = 1, true end
  save_waiters('i' .. request, ticket, 'w' .. ticket, packed)
end

-- Remove the waiter of a request, and advance the head past removed tickets, so that later calls do not read them.
local function remove_request(request)
  local ticket = tonumber(redis.call('HGET', waiters.key, 'i' .. request) or nil)
  if not ticket then return end
  remove_waiter(ticket, request)
  for _ = 1, 100 do
    if waiters.head > waiters.tail or redis.call('HEXISTS', waiters.key, 'w' .. waiters.head) == 1 then return end
    waiters.head = waiters.head + 1
  end
end

-- Out of budget: notify a waiter to call now and continue.
local function notify_to_continue()
  for ticket = waiters.tail, math.max(waiters.head, waiters.tail - 999), -1 do
    local waiter = read_waiter(waiters.key, ticket)
    if waiter and waiter.ends_at_us > now and not waiters.unresponsive[waiter.channel] and is_subscribed(waiter.channel) then
      publish(waiter.channel, waiter.request .. ' look')
      return
    end
  end
end
