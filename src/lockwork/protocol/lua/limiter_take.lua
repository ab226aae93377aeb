-- Books the first free slot for n units, unless it lies further ahead than the caller would wait. A request that has a slot ahead
-- moves up to where those before it have given theirs back.
-- KEYS: <limiter>
-- ARGV: rate, request, n: number, wait: number, channel?
--   rate: the rule as its users have it; wait: us (-1: as long as it takes; -2: book nothing, only move up)
-- Reply: {1, us until the slot, now us} booked (now or before); {0, us until it would be, now us} not booked;
--   {-1, 0, now us} the limiter is in use with the other algorithm
-- Invariants: bucket: in any span of time at most limit units and those that come back in it; window: in any period at most
--   limit units; slots are given in order; a request takes once
-- include: now
-- include: limiter
local books = read(rate, request)
local mine = books.mine
if mine then
  local rank = mine[1] > now and (not books.before or books.before == books.rule.kind) and redis.call('ZRANK', log, request)
  local score = rank and tonumber(redis.call('ZSCORE', log, request))
  if rank and (books.rule.kind == 'w' or score > books.fixed) then
    local before = rank > 0 and redis.call('ZRANGE', log, rank - 1, rank - 1)[1]
    local at, full, part = slot({
      rule = books.rule, full = mine[5], part = mine[6], last = before and entry(before)[1] or 0,
      count = score - mine[2], dropped = books.dropped
    }, mine[2])
    if at < mine[1] then
      mine[1], mine[3], mine[4] = at, full, part
      redis.call('HSET', limiter, 'e' .. request, cmsgpack.pack(mine))
      follow(books, rank + 1, full, part)
      save(books)
    end
  end
  return {1, math.max(0, mine[1] - now), now}
end
if wait == -2 then return {0, 0, now} end
if books.before and books.before ~= books.rule.kind then
  if books.live then return {-1, 0, now} end
  redis.call('DEL', limiter)
  books = read(rate, request)
end
if books.fresh and size > 0 then
  -- the log belongs to books that are gone
  redis.call('DEL', log)
  size = 0
end

local at, full, part = slot(books, n)
if wait >= 0 and at - now > wait then
  if books.before then save(books) end
  return {0, at - now, now}
end
local record = {at, n, full, part, books.full, books.part, channel}
books.count, books.last, books.full, books.part = books.count + n, at, full, part
trim(books)
redis.call('ZADD', log, books.count, request)
save(books, 'e' .. request, cmsgpack.pack(record))
return {1, at - now, now}
