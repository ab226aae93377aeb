-- Keeps the leases of worker sessions alive, all jobs of a session at once.
-- KEYS: workers: zset, stats
-- ARGV: lease: number, (session, joins)
--   lease: ms; joins: 1 to join for the first time
-- Out of memory: goes on
-- Reply: {now ms, ms until the next deadline of another session or -1, overdue session or '', its deadline, then 1 or 0 (it is over)
--   per session}
-- Invariants: a session that is over does not come back; no deadline lies further ahead than its own lease
-- include: now
-- Sessions are kept by a clock that goes on where the server's is set back: beat is the newest time it has shown, ms, and
-- ahead how far it is ahead of the server's. Else the jobs of a dead session would wait for as long as the step was.
local shown = redis.call('HMGET', stats, 'beat', 'ahead')
local newest, ahead = tonumber(shown[1] or 0), tonumber(shown[2] or 0)
local today = math.floor(now / 1000) + ahead
if today < newest then
  today, ahead = newest, ahead + newest - today
end
-- a queue that never had a job has no counters, and is not to be found by them
if redis.call('EXISTS', stats) == 1 then
  redis.call('HSET', stats, 'beat', string.format('%.0f', today), 'ahead', string.format('%.0f', ahead))
end

local mine, alive = {}, {}
local deadline = today + lease
for at = FIRST, #ARGV, STRIDE do
  local session, joins = ARGV[at], ARGV[at + 1]
  mine[session] = true
  if joins == '1' or (redis.call('ZSCORE', workers, session) or '0') ~= '0' then
    redis.call('ZADD', workers, deadline, session)
    alive[#alive + 1] = 1
  else
    alive[#alive + 1] = 0
  end
end
local left, overdue, ended = -1, '', 0
local known = redis.call('ZRANGE', workers, 0, #alive, 'WITHSCORES')
for at = 1, #known, 2 do
  if not mine[known[at]] then
    left = math.max(0, known[at + 1] - today)
    if left == 0 then overdue, ended = known[at], tonumber(known[at + 1]) end
    break
  end
end
return {math.floor(now / 1000), left, overdue, ended, unpack(alive)}
