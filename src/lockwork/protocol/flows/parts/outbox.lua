-- Messages of flows to other queues, in the hash `flows`. A script adds a message in the step that causes it; any
-- worker, or the caller, takes the first messages to a queue, delivers them (flows/receive), and acknowledges them
-- (flows/relay). So each message is delivered at least once, and first after all earlier messages to the same queue.
--   `>`: per queue {first, last, leased, request}: numbers of the first and the last message; the caller with this
--     request delivers the first messages until `leased` (ms), or 0
--   `>QUEUE NUMBER`: a message {kind, flow, ...}; its kinds are in flows/parts/messages.lua
--   outbox (in stats): set while there are messages, so that the worker that reserves next delivers them
-- KEYS: flows: hash, stats
-- include: queue/limits
-- include: flows/store
function flow_parts.outbox()
  local LEASE_MS = 1000 -- a batch takes a few ms; when its relay has died, another delivers it again
  local MOST, MOST_BYTES = 100, 1048576
  local outbox, lines, changed = {}, nil, false

  local function read()
    if not lines then
      local packed = redis.call('HGET', flows, '>')
      local fine, value = pcall(cmsgpack.unpack, packed or '')
      lines = packed and fine and type(value) == 'table' and value or {}
    end
    return lines
  end

  local function field(name, number)
    return string.format('>%s %.0f', name, number)
  end

  -- After the clock was set back, a lease ends at once.
  local function is_leased(line, now_ms)
    return line.leased > now_ms and line.leased <= now_ms + LEASE_MS
  end

  function outbox.send(name, ...)
    local line = read()[name]
    if not line then
      line = {first = 1, last = 0, leased = 0, request = ''}
      lines[name] = line
    end
    line.last = line.last + 1
    redis.call('HSET', flows, field(name, line.last), cmsgpack.pack({...}))
    changed = true
  end

  -- Delete the messages to a queue up to number `last`, unless another relay has taken them since. Call `on_unknown`
  -- with the queue and each message whose number is in `unknown`.
  function outbox.acknowledge(name, request, last, unknown, on_unknown)
    local line = read()[name]
    if not line or line.request ~= request then return end
    for number = line.first, math.min(last, line.last) do
      local packed = unknown[number] and redis.call('HGET', flows, field(name, number))
      local fine, message = pcall(cmsgpack.unpack, packed or '')
      redis.call('HDEL', flows, field(name, number))
      if packed and fine and type(message) == 'table' then on_unknown(name, message) end
    end
    line.first, line.leased, line.request = math.max(line.first, last + 1), 0, ''
    if line.first > line.last then lines[name] = nil end
    changed = true
  end

  -- Return the line that has waited longest since its last relay, and its queue.
  local function next_line(request, again, now_ms)
    local chosen
    for name, line in pairs(read()) do
      if again and line.request == request then return name, line end
      local earlier = not chosen or line.leased < lines[chosen].leased or (line.leased == lines[chosen].leased and name < chosen)
      if earlier and not is_leased(line, now_ms) then chosen = name end
    end
    return chosen, chosen and lines[chosen]
  end

  -- Lease the first messages to one queue to a relay. Return {}, or the queue, the number of the last of these
  -- messages, and the messages. `again`: an earlier try of the same request may have taken them.
  function outbox.take(request, again)
    local now_ms = math.floor(now / 1000)
    local name, line = next_line(request, again, now_ms)
    if not name then return {} end
    local reply, number, size = {name, 0}, line.first, 0
    while number <= line.last and #reply < MOST + 2 and size < MOST_BYTES do
      local message = redis.call('HGET', flows, field(name, number)) or ''
      reply[#reply + 1], size, number = message, size + #message, number + 1
    end
    reply[2] = number - 1
    line.leased, line.request, changed = now_ms + LEASE_MS, request, true
    return reply
  end

  -- Write the changes of this call. Return whether messages wait for a relay.
  function outbox.save()
    if not changed then return false end
    changed = false
    local waiting, now_ms = false, math.floor(now / 1000)
    for _, line in pairs(lines) do waiting = waiting or not is_leased(line, now_ms) end
    if next(lines) then
      redis.call('HSET', flows, '>', cmsgpack.pack(lines))
      if not queue.outbox then redis.call('HSET', stats, 'outbox', 1) end
    else
      redis.call('HDEL', flows, '>')
      redis.call('HDEL', stats, 'outbox')
    end
    queue.outbox = next(lines) and '1'
    return waiting
  end

  return outbox
end
