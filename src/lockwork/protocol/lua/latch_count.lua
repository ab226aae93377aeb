-- Counts a latch down; at zero it opens, and wakes every process that waits, each with one message.
-- KEYS: latch, log 0, log 1
-- ARGV: count, ttl ms, request, n
-- Reply: {1, left}; {-1, count} the latch is in use with another count
-- Invariants: a request counts once; what is left never rises within a round; an open latch stays open until it is reset
-- include: now
-- include: latch
-- include: publish
-- include: seal
if not touch(tonumber(ARGV[1]), tonumber(ARGV[2])) then return {-1, count} end
local request = ARGV[3]
local before = redis.call('HGET', KEYS[2 + turn], request) or redis.call('HGET', KEYS[3 - turn], request)
if before then return {1, tonumber(before)} end
if known('z', request) then return {1, 0} end
if left == 0 then
  remember('z', request)
  return {1, 0}
end

left = math.max(0, left - ARGV[4])
redis.call('HSET', KEYS[2 + turn], request, left)
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
keep(tonumber(ARGV[2]))
return {1, left}
