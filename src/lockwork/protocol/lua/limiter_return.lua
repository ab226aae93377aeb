-- Gives back units that were booked and will not be used, and wakes the caller behind, which moves up.
-- KEYS: <limiter>
-- ARGV: request
-- Out of memory: goes on
-- Reply: 1 given back; 0 not: the request is unknown or was given back before, or the rate has changed since
-- Invariants: slots that were given stay as they are; the limits of limiter_take hold
-- include: now
-- include: limiter
local mine = entry(request)
local rank = mine and redis.call('ZRANK', log, request)
if not rank then return 0 end
local books = read(redis.call('HGET', limiter, 's'), request)
if books.rule.kind == 'b' then
  -- what was booked at another rate is part of what the bucket lacked when the rate changed
  if tonumber(redis.call('ZSCORE', log, request)) <= books.fixed then return 0 end
else
  local later = redis.call('ZRANGE', log, rank + 1, rank + 1 + MANY, 'WITHSCORES')
  if #later > 2 * MANY then return 0 end -- each of them is renumbered, and a call does bounded work
  for at = 1, #later, 2 do redis.call('ZADD', log, later[at + 1] - mine[2], later[at]) end
  books.count = books.count - mine[2]
end
redis.call('ZREM', log, request)
redis.call('HDEL', limiter, 'e' .. request)
follow(books, rank, mine[5], mine[6])
save(books)
return 1
