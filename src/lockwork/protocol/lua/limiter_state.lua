-- Reads how many units could be taken now, and when all of them could.
-- KEYS: <limiter>
-- ARGV: rate
--   rate: the rule as its users have it
-- Reply: {units, us until all are there, now us}; {-1, 0, now us} the limiter is in use with the other algorithm
-- include: now
-- include: limiter
local books = read(rate, '')
local rule = books.rule
local other = books.before and books.before ~= rule.kind
if other and books.live then return {-1, 0, now} end
if other or books.fresh then return {rule.limit, 0, now} end

if rule.kind == 'b' then
  local least, most = 0, rule.limit -- the largest n whose slot is now
  while least < most do
    local n = math.ceil((least + most) / 2)
    if slot(books, n) <= now then least = n else most = n - 1 end
  end
  local lacks = math.max(0, books.full + (books.part > 0 and 1 or 0) - now)
  return {least, lacks, now}
end

if books.last > now then return {0, books.last + rule.period - now, now} end
local low, high = 0, redis.call('ZCARD', log) -- how many of the first entries have left the window
while low < high do
  local middle = math.floor((low + high) / 2)
  local request = redis.call('ZRANGE', log, middle, middle)[1]
  if entry(request)[1] <= now - rule.period then low = middle + 1 else high = middle end
end
local left = books.dropped
if low > 0 then left = tonumber(redis.call('ZRANGE', log, low - 1, low - 1, 'WITHSCORES')[2]) end
return {math.max(0, rule.limit - (books.count - left)), math.max(0, books.last + rule.period - now), now}
