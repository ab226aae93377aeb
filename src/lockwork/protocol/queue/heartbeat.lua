-- Renews the leases of worker sessions. One lease covers all jobs of a session.
-- KEYS: workers: zset, stats, suspects
-- ARGV: lease: number, (session, joins)
--   lease: ms; joins: 1 for a new session, s after its worker received a stop request
-- Out of memory: goes on
-- Indexed: stats
-- Reply: {now ms, ms until the next deadline of another session or -1, overdue session or '', its deadline, number of
--   suspects that wait for an isolation process, number of changes of schedules at run time (followed by the
--   tasks with limits, as in queue/parts/task_limits.lua, if there are any), then per
--   session 1, 2 if also messages of flows to other queues wait, or 0 if it is over}
-- Invariants: a session that is over stays over; no deadline is further ahead than its own lease
-- include: now
-- include: queue/sessions
-- Leases use a clock that continues when the server's clock is set back. beat: the newest time it has shown (ms);
-- ahead: its lead over the server's clock. Otherwise the jobs of a dead session would wait for the length of the clock
-- change.
local beat, ahead, any_suspects, paused, changes, outbox, limited = unpack(
  redis.call('HMGET', stats, 'beat', 'ahead', 'suspects', 'paused', 'schedules', 'outbox', 'limited'))
local newest = tonumber(beat or 0)
ahead = tonumber(ahead or 0)
local lease_now = math.floor(now / 1000) + ahead
if lease_now < newest then
  lease_now, ahead = newest, ahead + newest - lease_now
end
-- do not create counters for a queue that never had a job, because counters make a queue visible
if redis.call('EXISTS', stats) == 1 then
  redis.call('HSET', stats, 'beat', string.format('%.0f', lease_now), 'ahead', string.format('%.0f', ahead))
end

local mine, alive = {}, {}
local deadline = lease_now + lease
for at = FIRST, #ARGV, STRIDE do
  local session, joins = ARGV[at], ARGV[at + 1]
  mine[session] = true
  if joins == '1' or not is_over(session) then
    redis.call('ZADD', workers, joins == 's' and deadline + STOPPING or deadline, session)
    alive[#alive + 1] = outbox and 2 or 1
  else
    alive[#alive + 1] = 0
  end
end
local left, overdue, ended = -1, '', 0
local known = redis.call('ZRANGE', workers, 0, #alive, 'WITHSCORES')
for at = 1, #known, 2 do
  local session, score = known[at], known[at + 1]
  if not mine[session] then
    ended = math.floor(score)
    left = math.max(0, ended - lease_now)
    if left == 0 then overdue = session end
    break
  end
end
local waiting = any_suspects and not paused and redis.call('ZCARD', suspects) or 0
changes = limited and (changes or 0) .. ' ' .. limited or tonumber(changes or 0)
return {math.floor(now / 1000), left, overdue, ended, waiting, changes, unpack(alive)}
