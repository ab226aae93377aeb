-- Removes one entry, or all.
-- KEYS: entries, line, books, log 0, log 1
-- ARGV: request, then, unless all go: id, due us ('': whatever it is)
-- Reply: how many were removed
-- Invariants: an entry that was queued anew since the caller read its time stays; a request removes once
-- include: now
-- include: dq
redis.call('ZREM', entries, '') -- a script that has deleted may go on writing when the server is out of memory
local request, id = ARGV[1], ARGV[2]
local done = known(request)
if done then return tonumber(done) end

local count
if not id then
  count = redis.call('ZCARD', entries)
  redis.call('UNLINK', entries)
else
  local due = redis.call('ZSCORE', entries, id)
  if not due or (ARGV[3] ~= '' and math.floor(tonumber(due)) ~= tonumber(ARGV[3])) then return 0 end
  count = redis.call('ZREM', entries, id)
end
if count > 0 then remember(request, count, 1) end
return count
