-- Removes one entry, or all.
-- KEYS: <delay_queue/delay_queue>
-- ARGV: request, id?, score?
--   id: missing for all entries; score: due time of the entry, us ('': any)
-- Out of memory: goes on
-- Reply: number of removed entries
-- Invariants: an entry that was added again since the caller read its due time is not removed; a request removes once
-- include: now
-- include: delay_queue/delay_queue
local result = earlier_result(request)
if result then return tonumber(result) end

local count
if not id then
  count = redis.call('ZCARD', entries)
  redis.call('UNLINK', entries)
else
  local due = redis.call('ZSCORE', entries, id)
  if not due or (score ~= '' and math.floor(tonumber(due)) ~= tonumber(score)) then return 0 end
  count = redis.call('ZREM', entries, id)
end
if count > 0 then remember(request, count, 1) end
return count
