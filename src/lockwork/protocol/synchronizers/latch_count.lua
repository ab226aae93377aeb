-- Counts a latch down; at zero it opens, and each waiting process gets one message.
-- KEYS: <synchronizers/latch>
-- ARGV: size: number, ttl: number, request, n: number
--   size: the latch's count; ttl: ms
-- Reply: {COUNTED, remaining}; {OTHER_COUNT, count} the latch has another count
-- Invariants: a request counts once; the remaining count never rises within a round; an open latch stays open until its
--   reset
-- Codes: counted=1, <synchronizers/latch>
-- include: now
-- include: synchronizers/latch
-- include: publish
-- include: seal
if not has_count(size, ttl) then return {OTHER_COUNT, count} end
local counted = redis.call('HGET', logs[1 + log_in_use], request) or redis.call('HGET', logs[2 - log_in_use], request)
if counted then return {COUNTED, tonumber(counted)} end
if is_known(latch, 'z', request) then return {COUNTED, 0} end
if remaining == 0 then
  remember(latch, 'z', request)
  return {COUNTED, 0}
end

remaining = math.max(0, remaining - n)
redis.call('HSET', logs[1 + log_in_use], request, remaining)
redis.call('HSET', latch, 'n', remaining)
if remaining == 0 then
  redis.call('HSET', latch, 'o', round)
  local words = string.format('%.0f', round)
  local fields = redis.call('HGETALL', latch)
  for at = 1, #fields, 2 do
    if string.sub(fields[at], 1, 1) == 'w' then
      local place_ends, secret = string.match(fields[at + 1], '^(%d+) ?(.*)$')
      if tonumber(place_ends) > now then publish(string.sub(fields[at], 2), sealed(secret, latch, words)) end
      redis.call('HDEL', latch, fields[at])
    end
  end
end
extend_lifetime(ttl)
return {COUNTED, remaining}
