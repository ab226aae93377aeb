-- Books the first free slot for n units, unless it is further ahead than the caller would wait. A request that has a
-- slot moves up if earlier callers have returned theirs.
-- KEYS: <synchronizers/limiter>
-- ARGV: rate, request, n: number, wait: number, channel?
--   rate: the callers' rule; wait: us (-1: without limit; -2: book nothing, only move up)
-- Indexed: limiter
-- Reply: {BOOKED, us until the slot, now us} booked (now or before); {NOT_BOOKED, us until the first free slot, now
--   us}; {OTHER_ALGORITHM, 0, now us} the limiter is in use with the other algorithm
-- Codes: booked=1, not_booked=0, other_algorithm=-1
-- Invariants: bucket: in any span of time at most limit units plus the units that return in it; window: in any period
--   at most limit units; slots are assigned in order; a request books once
-- include: now
-- include: synchronizers/limiter
local state = read_state(rate, request)
local entry = state.entry
local other_kind = state.old_kind and state.old_kind ~= state.rule.kind
if entry then
  local rank = entry.slot_us > now and not other_kind and redis.call('ZRANK', log, request)
  local score = rank and tonumber(redis.call('ZSCORE', log, request))
  if rank and (state.rule.kind == 'w' or score > state.fixed) then
    local previous = rank > 0 and unpack(redis.call('ZRANGE', log, rank - 1, rank - 1))
    local at, full, part, levels = find_slot({
      rule = state.rule, others = state.others, levels = entry.others_before, full = entry.full_before, part = entry.part_before, last = previous and read_entry(previous).slot_us or 0,
      count = score - entry.units, dropped = state.dropped
    }, entry.units)
    if at < entry.slot_us then
      entry.slot_us, entry.full_after, entry.part_after = at, full, part
      redis.call('HSET', limiter, 'e' .. request, pack_entry(entry))
      update_next(state, rank + 1, full, part, levels)
      save_state(state)
    end
  end
  return {BOOKED, math.max(0, entry.slot_us - now), now}
end
if wait == -2 then return {NOT_BOOKED, 0, now} end
if other_kind then
  if state.in_use then return {OTHER_ALGORITHM, 0, now} end
  redis.call('DEL', limiter)
  state = read_state(rate, request)
end
if state.is_new and size > 0 then
  -- the log belongs to a state that was deleted
  redis.call('DEL', log)
  size = 0
end

local at, full, part, levels = find_slot(state, n)
if wait >= 0 and at - now > wait then
  if state.old_kind then save_state(state) end
  return {NOT_BOOKED, at - now, now}
end
entry = {
  slot_us = at, units = n, full_after = full, part_after = part, full_before = state.full, part_before = state.part, channel = channel,
  others_before = state.others and state.levels
}
state.levels = levels
state.count, state.last, state.full, state.part = state.count + n, at, full, part
remove_old_entries(state)
redis.call('ZADD', log, state.count, request)
save_state(state, 'e' .. request, pack_entry(entry))
return {BOOKED, at - now, now}
