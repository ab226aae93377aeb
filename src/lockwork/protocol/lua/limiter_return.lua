-- Gives back units that were booked and will not be used: at once where nobody's slot was built on them, else as soon as those who
-- have later slots have left, too.
-- KEYS: limiter, log
-- ARGV: request
-- Reply: 1 given back; 0 not, or not yet: the request is unknown or was given back before, or others count on it
-- Invariants: slots that were given stay as they are; the limits of limiter_take hold
-- include: now
-- include: limiter
redis.call('HDEL', limiter, '') -- a script that has deleted may go on writing when the server is out of memory
local request = ARGV[1]
local mine = entry(request)
local rank = mine and redis.call('ZRANK', log, request)
if not rank then return 0 end
local books = read(redis.call('HGET', limiter, 's'), request)
local later = redis.call('ZRANGE', log, rank + 1, rank + 1 + MANY, 'WITHSCORES')
if books.rule.kind == 'b' then
  -- later slots follow from this one: taking it away beneath them would let others in beside them
  mine[7] = 1
  redis.call('HSET', limiter, 'e' .. request, cmsgpack.pack(mine))
  if #later > 0 or books.full ~= mine[3] or books.part ~= mine[4] then return 0 end
  unwind(books)
  save(books)
  return 1
else
  if #later > 2 * MANY then return 0 end -- each of them is renumbered, and a call does bounded work
  for at = 1, #later, 2 do redis.call('ZADD', log, later[at + 1] - mine[2], later[at]) end
  books.count = books.count - mine[2]
end
redis.call('ZREM', log, request)
redis.call('HDEL', limiter, 'e' .. request)
local last = redis.call('ZRANGE', log, -1, -1)[1]
books.last = last and entry(last)[1] or 0
save(books)
return 1
