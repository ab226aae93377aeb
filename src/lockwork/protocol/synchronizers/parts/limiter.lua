-- A limiter's hash: s rule, or several, separated by spaces, the one with the smallest limit first; c units booked in total; l last slot (us); z count of the last forgotten entry; t, u end of
-- the refill of the bucket, us and parts of a us; g count that was booked at earlier rates; x expiry of the keys (us);
-- e<request> an entry (MessagePack); n newest time that was written (us), o difference of the limiter's clock to the
-- server's (us); m end of the refill of the other rules' buckets, us and parts of a us each.
-- log: requests by the count of units booked including their own, so also by slot: bookings are served in order.
-- KEYS: limiter, log
-- include: now
-- include: publish
local RETENTION_US = 60000000 -- a request is remembered after its slot, so that a repeated call books once
local MOST_RULES = 10
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

-- Return the rules after the first, or nil; and the longest period.
local function other_rules(text, first)
  local at = string.find(text, ' ', 1, true)
  if not at then return nil, first.period end
  local others, longest = {}, first.period
  for each in string.gmatch(string.sub(text, at), '%S+') do
    others[#others + 1] = parse_rule(each)
    longest = math.max(longest, others[#others].period)
    if #others == MOST_RULES then break end -- a viewer may send any text
  end
  return others, longest
end

-- Return the time until n units come back, in us and parts of a us; exact.
local function time_for(rule, n)
  local part = n * rule.rest
  local part_left = part % rule.parts
  return n * rule.whole + (part - part_left) / rule.parts, part_left
end

-- An entry has its slot, its units, the bucket after it and before it, and the channel of its caller; with several
-- rules also the other buckets before it, as in the state.
local function unpack_entry(packed)
  local slot_us, units, full_after, part_after, full_before, part_before, channel, others_before = unpack(cmsgpack.unpack(packed), 1, 8)
  return {
    slot_us = slot_us, units = units, full_after = full_after, part_after = part_after, full_before = full_before, part_before = part_before,
    channel = channel, others_before = others_before
  }
end

local function pack_entry(entry)
  return cmsgpack.pack({
    entry.slot_us, entry.units, entry.full_after, entry.part_after, entry.full_before, entry.part_before, entry.channel,
    entry.others_before
  })
end

local function read_entry(request)
  local packed = redis.call('HGET', limiter, 'e' .. request)
  return packed and unpack_entry(packed)
end

-- Return the buckets of the rules after the first: {end of the refill, parts of a us, ...}.
local function read_others()
  local levels = {}
  for number in string.gmatch(redis.call('HGET', limiter, 'm') or '', '%S+') do levels[#levels + 1] = tonumber(number) end
  return levels
end

-- Return the time `us` of a bucket in a bucket with another rule, which lacks the same number of units.
local function scaled(us, base, rule, old)
  local ratio = (rule.whole + rule.rest / rule.parts) / (old.whole + old.rest / old.parts)
  return us > base and base + math.ceil((us - base) * ratio) or us
end

-- Set the buckets of a state whose rules have changed, if the limiter has, or had, several. A bucket keeps its state if
-- its rule stays; otherwise it takes that of the rule at its place. A further bucket is full.
local function change_buckets(state, old, old_others)
  local base, known = math.max(now, state.last), {{old, state.full, state.part}}
  local levels = read_others()
  for at, rule in ipairs(old_others or {}) do known[at + 1] = {rule, levels[2 * at - 1] or 0, levels[2 * at] or 0} end
  local function bucket(rule, place)
    for _, each in ipairs(known) do
      local same = true
      for name, value in pairs(rule) do same = same and each[1][name] == value end
      if same then return each[2], each[3] end
    end
    if not known[place] then return 0, 0 end
    return scaled(known[place][2] + (known[place][3] > 0 and 1 or 0), base, rule, known[place][1]), 0
  end
  state.full, state.part = bucket(state.rule, 1)
  state.levels = {}
  for at, rule in ipairs(state.others or {}) do state.levels[2 * at - 1], state.levels[2 * at] = bucket(rule, at + 1) end
  state.fixed = state.count
end

-- Read the state under the rules `text`, and the entry of a request; units used under another rule stay used.
local function read_state(text, request)
  local rule = parse_rule(string.match(text, '^%S+'))
  local others, longest = other_rules(text, rule)
  local stored_text, count, last, full, part, dropped, expires, packed, newest, stored_ahead, fixed =
    unpack(redis.call('HMGET', limiter, 's', 'c', 'l', 't', 'u', 'z', 'x', 'e' .. request, 'n', 'o', 'g'))
  local state = {rule = rule, others = others, longest = longest, levels = {}, text = text, count = 0, last = 0, full = 0, part = 0, dropped = 0, expires = 0, fixed = 0}
  for at = 1, others and 2 * #others or 0 do state.levels[at] = 0 end
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
  if stored_text == text then
    if others and rule.kind == 'b' then state.levels = read_others() end
    return state
  end
  local old = parse_rule(string.match(stored_text, '^%S+'))
  local old_others, old_longest = other_rules(stored_text, old)
  state.old_kind = old.kind
  local idle_at = old.kind == 'b' and state.full or state.last + old_longest
  for at, us in ipairs(old_others and old.kind == 'b' and read_others() or {}) do
    if at % 2 == 1 then idle_at = math.max(idle_at, us) end
  end
  state.in_use = idle_at >= now
  if old.kind ~= rule.kind or rule.kind == 'w' then return state end
  if others or old_others then
    change_buckets(state, old, old_others)
    return state
  end
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

-- Return a bucket after n units were taken, and the first moment when it has them. A bucket that has them before
-- another one may refill until then: of two rules that both matter, that with fewer units is the faster one, so it is
-- full again whenever the other one has n units.
local function take_units(rule, full, part, n)
  if full < now then full, part = now, 0 end
  local whole, rest = time_for(rule, n)
  full, part = full + whole, part + rest
  if part >= rule.parts then full, part = full + 1, part - rule.parts end
  local depth, depth_part = time_for(rule, rule.limit)
  return full, part, full - depth + (part > depth_part and 1 or 0)
end

-- Return the first moment from `at` on when n more units fit into the window.
local function fits_window(state, rule, n, at)
  -- earlier units must leave the window until n more fit
  local leaving = state.count + n - rule.limit
  if leaving > state.dropped then
    local request = unpack(redis.call('ZRANGEBYSCORE', log, leaving, '+inf', 'LIMIT', 0, 1))
    if request then at = math.max(at, read_entry(request).slot_us + rule.period) end
  end
  return at
end

-- Return the first moment from `now` on when n units are available under all rules, and the buckets after it.
local function find_slot(state, n)
  local rule, others, levels = state.rule, state.others or {}, {}
  if rule.kind == 'b' then
    local full, part, free = take_units(rule, state.full, state.part, n)
    local at = math.max(now, state.last, free)
    for place, other in ipairs(others) do
      local end_us, end_part, other_free = take_units(other, state.levels[2 * place - 1], state.levels[2 * place], n)
      levels[2 * place - 1], levels[2 * place] = end_us, end_part
      at = math.max(at, other_free)
    end
    return at, full, part, levels
  end
  local at = math.max(now, state.last)
  at = fits_window(state, rule, n, at)
  for _, other in ipairs(others) do at = fits_window(state, other, n, at) end
  return at, 0, 0, levels
end

-- Return when all buckets are full.
local function all_full(state)
  local full = state.full + (state.part > 0 and 1 or 0)
  for at = 1, #state.levels, 2 do full = math.max(full, state.levels[at] + (state.levels[at + 1] > 0 and 1 or 0)) end
  return full
end

-- After a slot was returned or moved up: store the bucket before the entry at `rank`, and notify its caller to check
-- for an earlier slot. Behind the last entry, it is the state's bucket.
local function update_next(state, rank, full, part, levels)
  local request = unpack(redis.call('ZRANGE', log, rank, rank))
  if request then
    local entry = read_entry(request)
    entry.full_before, entry.part_before = full, part
    if state.others then entry.others_before = levels end
    redis.call('HSET', limiter, 'e' .. request, pack_entry(entry))
    if entry.slot_us > now then publish(entry.channel, limiter .. ':' .. request) end
    return
  end
  local last = unpack(redis.call('ZRANGE', log, -1, -1))
  state.last, state.full, state.part = last and read_entry(last).slot_us or 0, full, part
  state.levels = state.others and levels or {}
end

-- Remove entries that are no longer needed: at every eighth size, but more than the calls between add.
local function remove_old_entries(state)
  if size % 8 ~= 0 then return end
  for _ = 1, 20 do
    local request, count = unpack(redis.call('ZRANGE', log, 0, 0, 'WITHSCORES'))
    if not request then return end
    local slot_us = read_entry(request).slot_us
    if slot_us > now - state.longest or (slot_us > now - RETENTION_US and size <= MOST_REMEMBERED) then return end
    redis.call('ZREM', log, request)
    redis.call('HDEL', limiter, 'e' .. request)
    state.dropped, size = tonumber(count), size - 1
  end
end

-- Write the state, together with further fields.
local function save_state(state, ...)
  local needed_until = math.max(state.full, state.last + state.longest, unpack(state.levels)) + RETENTION_US
  local extended = state.expires < needed_until or size == 0
  if extended then state.expires = needed_until + RETENTION_US end
  redis.call('HSET', limiter, 's', state.text, 'c', state.count, 'l', state.last, 't', state.full, 'u', state.part,
    'z', state.dropped, 'g', state.fixed, 'x', state.expires, 'n', now, 'o', ahead, ...)
  if state.others and state.rule.kind == 'b' then redis.call('HSET', limiter, 'm', string.rep('%.0f ', #state.levels):format(unpack(state.levels))) end
  if extended then
    local ms = math.max(0, math.ceil((state.expires - now) / 1000)) + RETENTION_US / 1000
    redis.call('PEXPIRE', limiter, ms)
    redis.call('PEXPIRE', log, ms)
  end
end
