-- Reserves units for a buyer and enqueues a job, both or neither.
-- KEYS: jobs, ready:0, ready:1, ready:2, due, idle, stats, results:0, results:1, books, holds
-- ARGV: total, limit per buyer (0: none), id, buyer, units, hold ms, key (''), then, if a job: id, record, delay ms
-- Reply: {code, id, state, units, ms left, fence, created}: code 1 reserved (now or before), 0 sold out, -1 over the limit,
--   -2 the key is another buyer's
-- Invariants: sold + held <= total; one reservation per key; a job if and only if the reservation was made now
-- include: now
-- include: push
-- include: stock
open(ARGV[1])
expire()
local limit, id, buyer, units, key = tonumber(ARGV[2]), ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[7]

local function found(known)
  local kept = reservation(known)
  if not kept then return nil end
  if kept[1] == 'h' and kept[5] <= now then
    put_back(known, kept)
    redis.call('HINCRBY', books, 'expired', 1)
    return nil
  end
  if kept[2] ~= buyer then return {-2, '', '', 0, 0, 0, 0} end
  local left = kept[1] == 'h' and math.floor((kept[5] - now) / 1000) or 0
  return {1, known, kept[1], kept[3], left, kept[6], known == id and 1 or 0}
end

local earlier = found(id) or (key ~= '' and found(redis.call('HGET', books, 'k' .. key) or ''))
if earlier then return earlier end

local counts = redis.call('HMGET', books, 'total', 'sold', 'held', 'b' .. buyer)
if limit > 0 and (tonumber(counts[4] or 0)) + units > limit then return {-1, '', '', 0, 0, 0, 0} end
if counts[1] - counts[2] - counts[3] < units then return {0, '', '', 0, 0, 0, 0} end

local expiry = now + ARGV[6] * 1000
store(id, 'h', buyer, units, key, expiry, now)
redis.call('ZADD', holds, expiry, id)
redis.call('HINCRBY', books, 'held', units)
redis.call('HINCRBY', books, 'b' .. buyer, units)
if key ~= '' then redis.call('HSET', books, 'k' .. key, id) end
if #ARGV > 7 then push(8, false) end
return {1, id, 'h', units, tonumber(ARGV[6]), now, 1}
