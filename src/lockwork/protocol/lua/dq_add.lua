-- Adds ids, or moves those that are queued already.
-- KEYS: <dq>
-- ARGV: request, known_id, due, delay: number, (id)
--   known_id: k(eep) or r(eplace) what is queued already; due: us, or '' and then delay us
-- Reply: {how many were added or moved, due us}
-- Invariants: an id is queued once; a request adds once; waiters learn of an entry that is due sooner than was known
-- include: now
-- include: dq
local due = tonumber(due) or now + delay
local done = known(request)
if done then return cmsgpack.unpack(done) end

local earliest = redis.call('ZRANGE', entries, 0, 0, 'WITHSCORES')[2]
local pairs = {}
for at = FIRST, #ARGV do
  pairs[#pairs + 1] = due
  pairs[#pairs + 1] = ARGV[at]
end
local count
if known_id == 'k' then
  count = redis.call('ZADD', entries, 'NX', unpack(pairs))
else
  count = redis.call('ZADD', entries, 'CH', unpack(pairs))
end
if count > 0 then
  remember(request, cmsgpack.pack({count, due}), 1)
  if due <= now then
    wake(count)
  elseif not earliest or due < tonumber(earliest) then
    wake(1)
  end
end
return {count, due}
