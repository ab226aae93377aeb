-- Trims a queue's dead set and its history to their limits, oldest first.
-- KEYS: <dead/forget>, <history/history>
-- ARGV: ttl: number, limit: number, most: number, kept
--   ttl: ms that a dead job is kept; limit: dead jobs to keep; most: limit of deletions per call;
--   kept: the limit of history, as in stats; '' for the default
-- Out of memory: goes on
-- Reply: {number of dead jobs deleted, 1 if history or the dead set is still over its limit}
-- Invariants: entries within the limits stay; a job is deleted with its record, error, notes and attempts
-- include: now
-- include: dead/forget
-- include: history/history
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
