-- Takes due entries, oldest first; without any, it can wait.
-- KEYS: <delay_queue/delay_queue>
-- ARGV: request, count: number, channel
--   channel: '' not to wait
-- Out of memory: goes on
-- Reply: {us until a waiting caller calls again without a message, then per entry: id, due us}
-- Invariants: only one request takes an entry; a repeated call returns the same entries; no entry is returned early
-- include: now
-- include: delay_queue/delay_queue
local result = earlier_result(request)
if result then return {0, unpack(cmsgpack.unpack(result))} end

local taken = redis.call('ZRANGEBYSCORE', entries, '-inf', now, 'WITHSCORES', 'LIMIT', 0, count)
if #taken > 0 then
  local ids = {}
  for at = 1, #taken, 2 do
    ids[#ids + 1] = taken[at]
    taken[at + 1] = math.floor(tonumber(taken[at + 1]))
  end
  redis.call('ZREM', entries, unpack(ids))
  remember(request, cmsgpack.pack(taken), #ids)
end
local own_waiter = read_waiter(request)
local first_id, first_due = unpack(redis.call('ZRANGE', entries, 0, 0, 'WITHSCORES'))
if #taken > 0 or channel == '' then
  -- this caller no longer watches the next entry: another waiter must
  if remove_waiter(request) and first_id or (first_id and tonumber(first_due) <= now) then notify_waiters(1) end
  return {0, unpack(taken)}
end

-- a new waiter is the last, even if the clock was set back since others came
local _, newest = unpack(redis.call('ZRANGE', waiters, -1, -1, 'WITHSCORES'))
local since_us = own_waiter and own_waiter.since_us or math.max(now, (tonumber(newest) or 0) + 1)
local place_ends = now + PLACE_MS * 1000
write_waiter(request, {channel = channel, ends_at_us = place_ends, since_us = since_us})
redis.call('ZADD', waiters, since_us, request)
redis.call('PEXPIRE', waiters, 2 * RETENTION_MS)
redis.call('PEXPIRE', state, 2 * RETENTION_MS)
for _, first_request in ipairs(redis.call('ZRANGE', waiters, 0, 2)) do
  local waiter = read_waiter(first_request)
  if not waiter or waiter.ends_at_us <= now then
    remove_waiter(first_request)
  elseif waiter.ends_at_us > place_ends then -- the clock was set back
    waiter.ends_at_us = place_ends
    write_waiter(first_request, waiter)
  end
end
-- The first waiter checks when the next entry is due. The second and third check a little later, in case the first is
-- dead. So do the first waiters of the second and third process, in case a whole process is dead. Others are notified
-- when they move up.
local check_us, rank = CHECK_MS * 1000, redis.call('ZRANK', waiters, request)
if first_id and rank > 2 and rank < 20 then
  local channels, processes = {}, 0
  for _, earlier_request in ipairs(redis.call('ZRANGE', waiters, 0, rank - 1)) do
    local waiter = read_waiter(earlier_request)
    local other = waiter and waiter.channel or ''
    if not channels[other] then channels[other], processes = true, processes + 1 end
  end
  if not channels[channel] then rank = processes end
end
if first_id and rank <= 2 then
  check_us = math.min(check_us, math.max(1, tonumber(first_due) - now) + rank * 50000)
end
return {check_us}
