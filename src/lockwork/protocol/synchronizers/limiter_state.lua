-- Reads how many units are available now, and when the full limit is available.
-- Flags: no-writes
-- KEYS: <synchronizers/limiter>
-- ARGV: rate
--   rate: the callers' rule; '': the stored rule
-- Reply: {units, us until all are available, now us}; {-1, 0, now us} the limiter is in use with the other algorithm;
--   for the stored rule also: the rule, callers that wait for their slot, us until the last slot; or {} if there is
--   none
-- include: now
-- include: synchronizers/limiter
local has_rate = rate ~= ''
local rule_text = has_rate and rate or redis.call('HGET', limiter, 's')
if not rule_text then return {} end
local state = read_state(rule_text, '')
local rule = state.rule
local other_kind = state.old_kind and state.old_kind ~= rule.kind
if other_kind and state.in_use then return {-1, 0, now} end
if other_kind or state.is_new then return {rule.limit, 0, now} end

-- Return the number of slots that are not after a moment.
local function count_slots(moment)
  local low, high = 0, size
  while low < high do
    local middle = math.floor((low + high) / 2)
    local request = unpack(redis.call('ZRANGE', log, middle, middle))
    if read_entry(request).slot_us <= moment then low = middle + 1 else high = middle end
  end
  return low
end

local HALVINGS = 64 -- more than the largest exact number needs: a viewer may call it with any rule

-- Return the units available now, and the us until all are available.
local function available()
  if rule.kind == 'b' then
    local least, most = 0, rule.limit -- the largest n whose slot is now
    for _ = 1, HALVINGS do
      if least >= most then break end
      local n = math.ceil((least + most) / 2)
      if find_slot(state, n) <= now then least = n else most = n - 1 end
    end
    return least, math.max(0, all_full(state) - now)
  end
  if state.last > now then return 0, state.last + state.longest - now end
  local least = rule.limit
  for _, each in ipairs({rule, unpack(state.others or {})}) do
    local old_slots, count_before = count_slots(now - each.period), state.dropped
    if old_slots > 0 then
      local _, count = unpack(redis.call('ZRANGE', log, old_slots - 1, old_slots - 1, 'WITHSCORES'))
      count_before = tonumber(count)
    end
    least = math.min(least, each.limit - (state.count - count_before))
  end
  return math.max(0, least), math.max(0, state.last + state.longest - now)
end

local units, full_us = available()
if has_rate then return {units, full_us, now} end
return {units, full_us, now, rule_text, size - count_slots(now), math.max(0, state.last - now)}
