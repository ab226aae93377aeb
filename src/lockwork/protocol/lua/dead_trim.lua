-- Keeps a queue's dead set and its history within their bounds: the oldest go first.
-- KEYS: <forget>, <history>
-- ARGV: ttl: number, limit: number, most: number, kept
--   ttl: ms that a dead job is kept; limit: how many are kept; most: how many one call takes away;
--   kept: the bound of history, as in stats; '' by default
-- Out of memory: goes on
-- Reply: {how many dead jobs were taken away, 1 when there are more, of history or dead}
-- Invariants: what is within the bounds stays; a job goes with its record, its error, its notes and its attempts
-- include: now
-- include: forget
-- include: history
local over = redis.call('ZCARD', dead) - limit
local latest = math.floor(now / 1000) - ttl
local oldest = redis.call('ZRANGE', dead, 0, most - 1, 'WITHSCORES')
local ids, bytes, more = {}, 0, 0
for at = 1, #oldest, 2 do
  if #ids >= over and tonumber(oldest[at + 1]) > latest then break end
  if bytes > BYTES then
    more = 1
    break
  end
  ids[#ids + 1] = oldest[at]
  bytes = bytes + weight(oldest[at])
end
forget(ids)
if #ids == most then more = 1 end
set_history_bound(kept)
if trim_history(most) == most then more = 1 end
return {#ids, more}
