-- Keeps the leases of worker sessions alive, all jobs of a session at once.
-- KEYS: workers
-- ARGV: lease ms, then for each session: session, 1 to join for the first time
-- Reply: {ms until the next deadline of another session or -1, overdue session or '', then 1 or 0 (it is over) per session}
-- Invariants: a session that is over does not come back
-- include: now
local workers = KEYS[1]
redis.call('ZREM', KEYS[1], '') -- a script that has deleted may go on writing when the server is out of memory
local mine, alive = {}, {}
local deadline = math.floor(now / 1000) + ARGV[1]
for at = 2, #ARGV, 2 do
  local session = ARGV[at]
  mine[session] = true
  if ARGV[at + 1] == '1' or (redis.call('ZSCORE', workers, session) or '0') ~= '0' then
    redis.call('ZADD', workers, deadline, session)
    alive[#alive + 1] = 1
  else
    alive[#alive + 1] = 0
  end
end
local left, overdue = -1, ''
local known = redis.call('ZRANGE', workers, 0, #alive, 'WITHSCORES')
for at = 1, #known, 2 do
  if not mine[known[at]] then
    left = math.max(0, known[at + 1] - math.floor(now / 1000))
    if left == 0 then overdue = known[at] end
    break
  end
end
return {left, overdue, unpack(alive)}
