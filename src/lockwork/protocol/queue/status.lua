-- Counts a queue's jobs by place, and reads its counters.
-- Flags: no-writes
-- KEYS: ready*3, due, dead, stats, workers, group_queue, void, flows, suspects; runs*
-- ARGV: (session)
--   session: the first sessions that the caller knows, with their run hashes
-- Reply: {ready, scheduled, dead, {name, count, ...}, {session, deadline ms, ...} of all sessions, now ms, jobs blocked
--   by flows, running jobs per session of the call ...}
-- include: now
local waiting = redis.call('ZCARD', group_queue) + redis.call('ZCARD', suspects) - redis.call('SCARD', void)
for _, list in ipairs(ready) do waiting = waiting + redis.call('LLEN', list) end
local came = redis.call('ZCOUNT', due, '-inf', math.floor(now / 1000)) -- due jobs that are not yet moved
local reply = {
  waiting + came, redis.call('ZCARD', due) - came, redis.call('ZCARD', dead), redis.call('HGETALL', stats),
  redis.call('ZRANGE', workers, 0, -1, 'WITHSCORES'),
  math.floor(now / 1000) + tonumber(redis.call('HGET', stats, 'ahead') or 0), -- the clock of heartbeat.lua
  tonumber(redis.call('HGET', flows, '#') or 0),
}
for _, run in ipairs(runs) do reply[#reply + 1] = redis.call('HLEN', run) end
return reply
