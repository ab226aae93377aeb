-- Removes one entry, or all.
-- KEYS: <dq>
-- ARGV: request, id?, score?
--   id: without it all go; score: when it is due, us ('': whatever it is)
-- Out of memory: goes on
-- Reply: how many were removed
-- Invariants: an entry that was queued anew since the caller read its time stays; a request removes once
-- include: now
-- include: dq
local done = known(request)
if done then return tonumber(done) end

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
