-- Writes a value unless a higher fence has written before.
-- KEYS: register
-- ARGV: request, value, asked: number, strict: flag
--   asked: the fence; strict: each fence may write once only
-- Reply: {1, fence} written, now or by an earlier try; {0, fence that it has} refused
-- Invariants: the fence never falls; a request writes once
local held = redis.call('HMGET', register, 'f', 'r')
local fence, done = tonumber(held[1] or 0), held[2] or ''
local request = request .. ' '
if asked < fence then return {0, fence} end
if asked == fence then
  if string.find(done, request, 1, true) then return {1, fence} end
  if strict then return {0, fence} end
  -- the last few requests of this fence: threads of one holder may write side by side, and each try again
  done = string.sub(done, -15 * #request)
else
  done = ''
end
redis.call('HSET', register, 'f', asked, 'v', value, 'r', done .. request)
return {1, asked}
