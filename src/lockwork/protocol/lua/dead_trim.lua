-- Keeps a queue's dead set within its bounds: the oldest go first.
-- KEYS: dead, jobs, errors, tries, stats, notes
-- ARGV: ms that a dead job is kept, how many are kept, how many one call takes away
-- Reply: {how many were taken away, 1 when there are more}
-- Invariants: what is within the bounds stays; a job goes with its record, its error, its notes and its attempts
-- include: now
-- include: forget
local most = tonumber(ARGV[3])
local over = redis.call('ZCARD', dead) - ARGV[2]
local latest = math.floor(now / 1000) - ARGV[1]
local oldest = redis.call('ZRANGE', dead, 0, most - 1, 'WITHSCORES')
local ids, bytes, more = {}, 0, 0
for at = 1, #oldest, 2 do
  if #ids >= over and tonumber(oldest[at + 1]) > latest then break end
  if bytes > BYTES then
    more = 1
    break
  end
  ids[#ids + 1] = oldest[at]
  bytes = bytes + weight(oldest[at])
end
forget(ids)
if #ids == most then more = 1 end
return {#ids, more}
