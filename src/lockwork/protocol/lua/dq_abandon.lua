-- Withdraws a pop: its waiter is removed; what it took is due again, unless its id was queued anew since.
-- KEYS: <dq>
-- ARGV: (request)
-- Out of memory: goes on
-- Reply: how many entries came back
-- Invariants: the pop takes nothing any more, even if it comes late; other waiters are notified
-- include: now
-- include: dq
local back, stood = 0, false
for _, request in ipairs(ARGV) do
  stood = leave(request) or stood
  local done = known(request)
  if done then
    local taken = cmsgpack.unpack(done)
    local pairs = {}
    for at = 1, #taken, 2 do
      pairs[at] = taken[at + 1]
      pairs[at + 1] = taken[at]
    end
    if #pairs > 0 then back = back + redis.call('ZADD', entries, 'NX', unpack(pairs)) end
    redis.call('HDEL', logs[1], request)
    redis.call('HDEL', logs[2], request)
  end
  remember(request, cmsgpack.pack({}), 1)
  log = redis.call('HMGET', state, 'k', 'x', 'c')
end
if (stood or back > 0) and redis.call('ZCARD', entries) > 0 then wake(math.max(1, back)) end
return back
