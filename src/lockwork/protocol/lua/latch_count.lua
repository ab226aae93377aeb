-- Counts a latch down; at zero it opens, and wakes every process that waits, each with one message.
-- KEYS: <latch>
-- ARGV: size: number, ttl: number, request, n: number
--   size: the latch's count; ttl: ms
-- Reply: {1, left}; {-1, count} the latch is in use with another count
-- Invariants: a request counts once; what is left never rises within a round; an open latch stays open until it is reset
-- include: now
-- include: latch
-- include: publish
-- include: seal
if not opened_with(size, ttl) then return {-1, count} end
local before = redis.call('HGET', logs[1 + turn], request) or redis.call('HGET', logs[2 - turn], request)
if before then return {1, tonumber(before)} end
if known(latch, 'z', request) then return {1, 0} end
if left == 0 then
  remember(latch, 'z', request)
  return {1, 0}
end

left = math.max(0, left - n)
redis.call('HSET', logs[1 + turn], request, left)
redis.call('HSET', latch, 'n', left)
if left == 0 then
  redis.call('HSET', latch, 'o', round)
  local words = string.format('%.0f', round)
  local fields = redis.call('HGETALL', latch)
  for at = 1, #fields, 2 do
    if string.sub(fields[at], 1, 1) == 'w' then
      local place, secret = string.match(fields[at + 1], '^(%d+) ?(.*)$')
      if tonumber(place) > now then publish(string.sub(fields[at], 2), sealed(secret, latch, words)) end
      redis.call('HDEL', latch, fields[at])
    end
  end
end
keep(ttl)
return {1, left}
