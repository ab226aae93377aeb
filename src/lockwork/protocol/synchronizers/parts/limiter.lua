-- A limiter's hash: s rule; c units booked in total; l last slot (us); z count of the last forgotten entry; t, u end of
-- the refill of the bucket, us and parts of a us; g count that was booked at earlier rates; x expiry of the keys (us);
-- e<request> an entry (MessagePack); n newest time that was written (us), o difference of the limiter's clock to the
-- server's (us).
-- log: requests by the count of units booked including their own, so also by slot: bookings are served in order.
-- KEYS: limiter, log
-- include: now
-- include: publish
local RETENTION_US = 60000000 -- a request is remembered after its slot, so that a repeated call books once
local MOST_REMEMBERED = 1000 -- requests that are remembered only for that
local size = redis.call('ZCARD', log)
local server_now, ahead = now, 0

-- Parse a rule: b(ucket) or w(indow); a unit comes back every whole + rest / parts us; at most limit units, in a window
-- of period us.
local function parse_rule(text)
  local kind, whole, rest, parts, limit, period = string.match(text, '^(%a):(%d+):(%d+):(%d+):(%d+):(%d+)$')
  return {
    kind = kind, whole = tonumber(whole), rest = tonumber(rest), parts = tonumber(parts),
    limit = tonumber(limit), period = tonumber(period)
  }
end

-- Return the time until n units come back, in us and parts of a us; exact.
local function time_for(rule, n)
  local part = n * rule.rest
  local part_left = part % rule.parts
  return n * rule.whole + (part - part_left) / rule.parts, part_left
end

-- An entry has its slot, its units, the bucket after it and before it, and the channel of its caller.
local function unpack_entry(packed)
  local slot_us, units, full_after, part_after, full_before, part_before, channel = unpack(cmsgpack.unpack(packed), 1, 7)
  return {
    slot_us = slot_us, units = units, full_after = full_after, part_after = part_after, full_before = full_before, part_before = part_before,
    channel = channel
  }
end

local function pack_entry(entry)
  return cmsgpack.pack({
    entry.slot_us, entry.units, entry.full_after, entry.part_after, entry.full_before, entry.part_before, entry.channel
  })
end

local function read_entry(request)
  local packed = redis.call('HGET', limiter, 'e' .. request)
  return packed and unpack_entry(packed)
end

-- Read the state under the rule `text`, and the entry of a request; units used under another rule stay used.
local function read_state(text, request)
  local rule = parse_rule(text)
  local stored_text, count, last, full, part, dropped, expires, packed, newest, stored_ahead, fixed =
    unpack(redis.call('HMGET', limiter, 's', 'c', 'l', 't', 'u', 'z', 'x', 'e' .. request, 'n', 'o', 'g'))
  local state = {rule = rule, text = text, count = 0, last = 0, full = 0, part = 0, dropped = 0, expires = 0, fixed = 0}
  if not stored_text then
    state.is_new = true
    return state
  end
  state.count, state.last, state.full, state.part = tonumber(count), tonumber(last), tonumber(full), tonumber(part)
  state.dropped, state.expires, state.fixed = tonumber(dropped), tonumber(expires), tonumber(fixed or 0)
  -- If the server's clock was set back, the limiter's clock continues from its newest time, so no caller waits longer
  -- for its slot.
  ahead = math.max(tonumber(stored_ahead or 0), tonumber(newest or 0) - server_now)
  now = server_now + ahead
  state.entry = packed and unpack_entry(packed)
  if stored_text == text then return state end
  local old = parse_rule(stored_text)
  state.old_kind = old.kind
  local idle_at = old.kind == 'b' and state.full or state.last + old.period
  state.in_use = idle_at >= now
  if old.kind ~= rule.kind or rule.kind == 'w' then return state end
  -- Booked slots do not move; after the last slot, the bucket lacks the same number of units as before. (From now on,
  -- each change to a slower rate would stretch the booked time, and no change would shrink it.)
  local base = math.max(now, state.last)
  local ratio = (rule.whole + rule.rest / rule.parts) / (old.whole + old.rest / old.parts)
  local changed = ratio ~= 1 or old.parts ~= rule.parts
  if changed then state.fixed = state.count end
  if changed and state.full > base then
    state.full, state.part = base + math.ceil((state.full + (state.part > 0 and 1 or 0) - base) * ratio), 0
  end
  return state
end

-- Return the first moment from `now` on when n units are available, and the bucket after it.
local function find_slot(state, n)
  local rule = state.rule
  if rule.kind == 'b' then
    local full, part = state.full, state.part
    if full < now then full, part = now, 0 end
    local whole, rest = time_for(rule, n)
    full, part = full + whole, part + rest
    if part >= rule.parts then full, part = full + 1, part - rule.parts end
    local depth, depth_part = time_for(rule, rule.limit)
    return math.max(now, state.last, full - depth + (part > depth_part and 1 or 0)), full, part
  end
  -- earlier units must leave the window until n more fit
  local leaving = state.count + n - rule.limit
  local at = math.max(now, state.last)
  if leaving > state.dropped then
    local request = unpack(redis.call('ZRANGEBYSCORE', log, leaving, '+inf', 'LIMIT', 0, 1))
    if request then at = math.max(at, read_entry(request).slot_us + rule.period) end
  end
  return at, 0, 0
end

-- After a slot was returned or moved up: store the bucket before the entry at `rank`, and notify its caller to check
-- for an earlier slot. Behind the last entry, it is the state's bucket.
local function update_next(state, rank, full, part)
  local request = unpack(redis.call('ZRANGE', log, rank, rank))
  if request then
    local entry = read_entry(request)
    entry.full_before, entry.part_before = full, part
    redis.call('HSET', limiter, 'e' .. request, pack_entry(entry))
    if entry.slot_us > now then publish(entry.channel, limiter .. ':' .. request) end
    return
  end
  local last = unpack(redis.call('ZRANGE', log, -1, -1))
  state.last, state.full, state.part = last and read_entry(last).slot_us or 0, full, part
end

-- Remove entries that are no longer needed: at every eighth size, but more than the calls between add.
local function remove_old_entries(state)
  if size % 8 ~= 0 then return end
  for _ = 1, 20 do
    local request, count = unpack(redis.call('ZRANGE', log, 0, 0, 'WITHSCORES'))
    if not request then return end
    local slot_us = read_entry(request).slot_us
    if slot_us > now - state.rule.period or (slot_us > now - RETENTION_US and size <= MOST_REMEMBERED) then return end
    redis.call('ZREM', log, request)
    redis.call('HDEL', limiter, 'e' .. request)
    state.dropped, size = tonumber(count), size - 1
  end
end

-- Write the state, together with further fields.
local function save_state(state, ...)
  local needed_until = math.max(state.full, state.last + state.rule.period) + RETENTION_US
  local extended = state.expires < needed_until or size == 0
  if extended then state.expires = needed_until + RETENTION_US end
  redis.call('HSET', limiter, 's', state.text, 'c', state.count, 'l', state.last, 't', state.full, 'u', state.part,
    'z', state.dropped, 'g', state.fixed, 'x', state.expires, 'n', now, 'o', ahead, ...)
  if extended then
    local ms = math.max(0, math.ceil((state.expires - now) / 1000)) + RETENTION_US / 1000
    redis.call('PEXPIRE', limiter, ms)
    redis.call('PEXPIRE', log, ms)
  end
end
