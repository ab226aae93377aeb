-- Counts a queue's jobs by place, and reads its counters.
-- KEYS: ready*3, due, dead, stats, workers, group_queue, void, flows; runs*
-- ARGV: (session)
--   session: those that the caller knows, with their run hashes
-- Reply: {ready, scheduled, dead, {name, count, ...}, {session, deadline ms, ...}, now ms, blocked by flows, running per session ...}
-- include: now
local waiting = redis.call('LLEN', ready[1]) + redis.call('LLEN', ready[2]) + redis.call('LLEN', ready[3])
  + redis.call('ZCARD', group_queue) - redis.call('SCARD', void)
local came = redis.call('ZCOUNT', due, '-inf', math.floor(now / 1000)) -- due, and no worker has moved them yet
local reply = {
  waiting + came, redis.call('ZCARD', due) - came, redis.call('ZCARD', dead), redis.call('HGETALL', stats),
  redis.call('ZRANGE', workers, 0, 999, 'WITHSCORES'),
  math.floor(now / 1000) + tonumber(redis.call('HGET', stats, 'ahead') or 0), -- as jobs_beat counts
  tonumber(redis.call('HGET', flows, '#') or 0),
}
for _, run in ipairs(runs) do reply[#reply + 1] = redis.call('HLEN', run) end
return reply
