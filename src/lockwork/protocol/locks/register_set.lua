-- Writes a value, unless a higher fence has already written.
-- KEYS: register
-- ARGV: request, value, fence: number, strict: flag, ttl: number
--   strict: each fence may write only once; ttl: ms until the register is deleted, 0 for never
-- Reply: {1, fence} written, now or by an earlier try; {0, the register's fence} refused
-- Invariants: the fence never falls; a request writes once
local last_fence, requests = unpack(redis.call('HMGET', register, 'f', 'r'))
last_fence, requests = tonumber(last_fence or 0), requests or ''
request = request .. ' '
if fence < last_fence then return {0, last_fence} end
if fence == last_fence then
  if string.find(requests, request, 1, true) then return {1, last_fence} end
  if strict then return {0, last_fence} end
  -- keep the last requests of this fence: threads of one holder may write concurrently, and each may repeat its call
  requests = string.sub(requests, -15 * #request)
else
  requests = ''
end
if ttl == 0 and redis.call('PTTL', register) >= 0 then redis.call('DEL', register) end -- its time to live ends
redis.call('HSET', register, 'f', fence, 'v', value, 'r', requests .. request)
if ttl > 0 then redis.call('PEXPIRE', register, ttl) end
return {1, fence}
