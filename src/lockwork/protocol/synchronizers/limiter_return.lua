-- Returns booked units that will not be used, and notifies the next caller, which moves up.
-- KEYS: <synchronizers/limiter>
-- ARGV: request
-- Out of memory: goes on
-- Reply: 1 returned; 0 not: the request is unknown or already returned, or the rate has changed since
-- Invariants: slots of other callers do not move; the limits of synchronizers/limiter_take.lua hold
-- include: now
-- include: synchronizers/limiter
local entry = read_entry(request)
local rank = entry and redis.call('ZRANK', log, request)
if not rank then return 0 end
local state = read_state(redis.call('HGET', limiter, 's'), request)
if state.rule.kind == 'b' then
  -- units booked at another rate are part of the bucket's lack at the change
  if tonumber(redis.call('ZSCORE', log, request)) <= state.fixed then return 0 end
else
  local later = redis.call('ZRANGE', log, rank + 1, rank + 1 + MOST_REMEMBERED, 'WITHSCORES')
  if #later > 2 * MOST_REMEMBERED then return 0 end -- each entry is renumbered, and a call does bounded work
  for at = 1, #later, 2 do redis.call('ZADD', log, later[at + 1] - entry.units, later[at]) end
  state.count = state.count - entry.units
end
redis.call('ZREM', log, request)
redis.call('HDEL', limiter, 'e' .. request)
update_next(state, rank, entry.full_before, entry.part_before, entry.others_before)
save_state(state)
return 1
