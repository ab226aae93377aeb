-- Reads whether a latch is open, and if not, notes the process to wake.
-- KEYS: <latch>
-- ARGV: size: number, ttl: number, since: number, channel, secret?
--   size: the latch's count; ttl: ms; since: round that the caller waits for (0: none yet)
--   channel: '': do not wake; secret: seals the message to it
-- Reply: {1, 0, round} it is open, or that round was; {0, left, round} it is not; {-1, count, 0} in use with another count
-- include: now
-- include: latch
if not opened_with(size, ttl) then return {-1, count, 0} end
if left == 0 or (since > 0 and opened >= since) then return {1, 0, round} end
if channel ~= '' then
  local fresh = redis.call('HSET', latch, 'w' .. channel, string.format('%.0f %s', now + PLACE * 1000, secret or ''))
  if fresh == 1 and redis.call('HLEN', latch) > 100 then
    -- processes come and go; those that are gone must not pile up
    local fields = redis.call('HGETALL', latch)
    for at = 1, #fields, 2 do
      if string.sub(fields[at], 1, 1) == 'w' and tonumber(string.match(fields[at + 1], '^%d+')) <= now then
        redis.call('HDEL', latch, fields[at])
      end
    end
  end
  if ends - now < PLACE * 1000 then redis.call('PEXPIRE', latch, PLACE + MARGIN) end
end
return {0, left, round}
