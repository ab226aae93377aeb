-- A limiter's state. The hash: s its rule; c units ever booked; l the last slot; z the count of the last entry dropped;
-- t, u when the bucket is full again, us and parts of a us; g the count that was booked at other rates; x when the keys expire,
-- us; e<request> = {slot us, units, then t, u after and before it, channel of its caller};
-- n newest time that was written (us), o how far this state's clock is ahead of the server's (us).
-- The log: requests by the count of units booked up to and with them, so also by slot: bookings are served in order.
-- KEYS: limiter, log
-- include: now
-- include: publish
local KEPT = 60000000 -- us that a request is remembered after its slot, so that a call that is sent again takes once
local MANY = 1000 -- requests remembered only for that; more go early
local size = redis.call('ZCARD', log)
local server, ahead = now, 0

-- A rule: b(ucket) or w(indow); a unit comes back every whole + rest / parts us; at most limit units, in period us if a window.
local function parsed(text)
  local kind, whole, rest, parts, limit, period = string.match(text, '^(%a):(%d+):(%d+):(%d+):(%d+):(%d+)$')
  return {
    kind = kind, whole = tonumber(whole), rest = tonumber(rest), parts = tonumber(parts),
    limit = tonumber(limit), period = tonumber(period)
  }
end

-- How long it takes until n units have come back, in us and parts of a us; exact.
local function span(rule, n)
  local part = n * rule.rest
  local left = part % rule.parts
  return n * rule.whole + (part - left) / rule.parts, left
end

local function entry(request)
  local packed = redis.call('HGET', limiter, 'e' .. request)
  return packed and cmsgpack.unpack(packed)
end

-- Read the state under the rule `text`, and the entry of a request; under another rule than before, what was used stays used.
-- Nothing is written.
local function read(text, request)
  local rule = parsed(text)
  local found = redis.call('HMGET', limiter, 's', 'c', 'l', 't', 'u', 'z', 'x', 'e' .. request, 'n', 'o', 'g')
  local state = {rule = rule, text = text, count = 0, last = 0, full = 0, part = 0, dropped = 0, expires = 0, fixed = 0}
  if not found[1] then
    state.fresh = true
    return state
  end
  state.count, state.last = tonumber(found[2]), tonumber(found[3])
  state.full, state.part = tonumber(found[4]), tonumber(found[5])
  state.dropped, state.expires = tonumber(found[6]), tonumber(found[7])
  state.fixed = tonumber(found[11] or 0)
  -- Where the server's clock is set back, the state's goes on: so no caller waits longer than before for what was booked.
  ahead = math.max(tonumber(found[10] or 0), tonumber(found[9] or 0) - server)
  now = server + ahead
  state.mine = found[8] and cmsgpack.unpack(found[8])
  if found[1] == text then return state end
  local old = parsed(found[1])
  state.before = old.kind
  local idle = old.kind == 'b' and state.full or state.last + old.period
  state.live = idle >= now
  if old.kind ~= rule.kind or rule.kind == 'w' then return state end
  -- a caller that has a slot keeps it; from then on the bucket lacks as many units as before. (Counted from now on, what is
  -- booked would be stretched by each change to a slower rate and never shrink again.)
  local base = math.max(now, state.last)
  local ratio = (rule.whole + rule.rest / rule.parts) / (old.whole + old.rest / old.parts)
  local changed = ratio ~= 1 or old.parts ~= rule.parts
  if changed then state.fixed = state.count end
  if changed and state.full > base then
    state.full, state.part = base + math.ceil((state.full + (state.part > 0 and 1 or 0) - base) * ratio), 0
  end
  return state
end

-- The first moment from `now` on at which n units may be taken, and what a bucket's state is then.
local function slot(state, n)
  local rule = state.rule
  if rule.kind == 'b' then
    local full, part = state.full, state.part
    if full < now then full, part = now, 0 end
    local whole, rest = span(rule, n)
    full, part = full + whole, part + rest
    if part >= rule.parts then full, part = full + 1, part - rule.parts end
    local depth, deep = span(rule, rule.limit)
    return math.max(now, state.last, full - depth + (part > deep and 1 or 0)), full, part
  end
  -- the units that do not fit beside these n must have left the window
  local leave = state.count + n - rule.limit
  local at = math.max(now, state.last)
  if leave > state.dropped then
    local first = redis.call('ZRANGEBYSCORE', log, leave, '+inf', 'LIMIT', 0, 1)[1]
    if first then at = math.max(at, entry(first)[1] + rule.period) end
  end
  return at, 0, 0
end

-- The place `rank` of the log follows a slot that was given back or moved up: keep in it the state before it, and wake its caller if
-- that waits, to look whether it moves up. At the log's end this is the state.
local function follow(state, rank, full, part)
  local request = redis.call('ZRANGE', log, rank, rank)[1]
  if request then
    local behind = entry(request)
    behind[5], behind[6] = full, part
    redis.call('HSET', limiter, 'e' .. request, cmsgpack.pack(behind))
    if behind[1] > now then publish(behind[7], limiter .. ':' .. request) end
    return
  end
  local last = redis.call('ZRANGE', log, -1, -1)[1]
  state.last, state.full, state.part = last and entry(last)[1] or 0, full, part
end

-- Drop entries that neither count nor are remembered any more: now and then, and a few at once, but more than come in.
local function trim(state)
  if size % 8 ~= 0 then return end
  for _ = 1, 20 do
    local first = redis.call('ZRANGE', log, 0, 0, 'WITHSCORES')
    if not first[1] then return end
    local at = entry(first[1])[1]
    if at > now - state.rule.period or (at > now - KEPT and size <= MANY) then return end
    redis.call('ZREM', log, first[1])
    redis.call('HDEL', limiter, 'e' .. first[1])
    state.dropped, size = tonumber(first[2]), size - 1
  end
end

-- Write the state, and any further fields with them.
local function save(state, ...)
  local kept = math.max(state.full, state.last + state.rule.period) + KEPT
  local renewed = state.expires < kept or size == 0
  if renewed then state.expires = kept + KEPT end
  redis.call('HSET', limiter, 's', state.text, 'c', state.count, 'l', state.last, 't', state.full, 'u', state.part,
    'z', state.dropped, 'g', state.fixed, 'x', state.expires, 'n', now, 'o', ahead, ...)
  if renewed then
    local ms = math.max(0, math.ceil((state.expires - now) / 1000)) + KEPT / 1000
    redis.call('PEXPIRE', limiter, ms)
    redis.call('PEXPIRE', log, ms)
  end
end
