-- Reads whether a latch is open, and if not, stores the process to notify.
-- KEYS: <synchronizers/latch>
-- ARGV: size: number, ttl: number, since: number, channel, secret?
--   size: the latch's count; ttl: ms; since: round that the caller waits for (0: none yet)
--   channel: '' for no message; secret: seals the message
-- Reply: {OPEN, 0, round} it is open, or that round was; {CLOSED, remaining, round}; {OTHER_COUNT, count, 0} the latch
--   has another count
-- Codes: open=1, closed=0, <synchronizers/latch>
-- include: now
-- include: synchronizers/latch
if not has_count(size, ttl) then return {OTHER_COUNT, count, 0} end
if remaining == 0 or (since > 0 and opened_round >= since) then return {OPEN, 0, round} end
if channel ~= '' then
  local added = redis.call('HSET', latch, 'w' .. channel, string.format('%.0f %s', now + PLACE_MS * 1000, secret or ''))
  if added == 1 and redis.call('HLEN', latch) > 100 then
    -- delete the places of processes that have ended
    local fields = redis.call('HGETALL', latch)
    for at = 1, #fields, 2 do
      if string.sub(fields[at], 1, 1) == 'w' and tonumber(string.match(fields[at + 1], '^%d+')) <= now then
        redis.call('HDEL', latch, fields[at])
      end
    end
  end
  if ends_us - now < PLACE_MS * 1000 then redis.call('PEXPIRE', latch, PLACE_MS + MARGIN_MS) end
end
return {CLOSED, remaining, round}
