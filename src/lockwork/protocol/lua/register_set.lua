-- Writes a value unless a higher fence has written before.
-- KEYS: register
-- ARGV: request, value, fence, 1 if each fence may write once only or 0
-- Reply: {1, fence} written, now or by an earlier try; {0, fence that it has} refused
-- Invariants: the fence never falls; a request writes once
local held = redis.call('HMGET', KEYS[1], 'f', 'r')
local fence, done = tonumber(held[1] or 0), held[2] or ''
local asked = tonumber(ARGV[3])
local request = ARGV[1] .. ' '
if asked < fence then return {0, fence} end
if asked == fence then
  if string.find(done, request, 1, true) then return {1, fence} end
  if ARGV[4] == '1' then return {0, fence} end
  -- the last few requests of this fence: threads of one holder may write side by side, and each try again
  done = string.sub(done, -15 * #request)
else
  done = ''
end
redis.call('HSET', KEYS[1], 'f', ARGV[3], 'v', ARGV[2], 'r', done .. request)
return {1, asked}
