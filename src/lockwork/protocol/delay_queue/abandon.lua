-- Withdraws a pop: removes its waiter; its entries are due again, unless their ids were added again since.
-- KEYS: <delay_queue/delay_queue>
-- ARGV: (request)
-- Out of memory: goes on
-- Reply: number of returned entries
-- Invariants: a late call of the pop takes nothing; other waiters are notified
-- include: now
-- include: delay_queue/delay_queue
local returned, was_waiting = 0, false
for _, request in ipairs(ARGV) do
  was_waiting = remove_waiter(request) or was_waiting
  local result = earlier_result(request)
  if result then
    local taken = cmsgpack.unpack(result)
    local pairs = {}
    for at = 1, #taken, 2 do
      pairs[at] = taken[at + 1]
      pairs[at + 1] = taken[at]
    end
    if #pairs > 0 then returned = returned + redis.call('ZADD', entries, 'NX', unpack(pairs)) end
    for _, log in ipairs(logs) do redis.call('HDEL', log, request) end
  end
  remember(request, cmsgpack.pack({}), 1)
end
if (was_waiting or returned > 0) and redis.call('ZCARD', entries) > 0 then notify_waiters(math.max(1, returned)) end
return returned
