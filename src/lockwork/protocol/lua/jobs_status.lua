-- Counts a queue's jobs by place, and reads its counters.
-- KEYS: ready:0, ready:1, ready:2, due, dead, stats, workers, lines, withdrawn, then the run hash of each session named in ARGV,
--   then flows
-- ARGV: the sessions
-- Reply: {ready, scheduled, dead, {name, count, ...}, {session, deadline ms, ...}, now ms, blocked by flows, running per session ...}
-- include: now
local ready = redis.call('LLEN', KEYS[1]) + redis.call('LLEN', KEYS[2]) + redis.call('LLEN', KEYS[3])
  + redis.call('ZCARD', KEYS[8]) - redis.call('SCARD', KEYS[9])
local reply = {
  ready, redis.call('ZCARD', KEYS[4]), redis.call('ZCARD', KEYS[5]), redis.call('HGETALL', KEYS[6]),
  redis.call('ZRANGE', KEYS[7], 0, 999, 'WITHSCORES'),
  math.floor(now / 1000) + tonumber(redis.call('HGET', KEYS[6], 'ahead') or 0), -- as jobs_beat counts
  tonumber(redis.call('HGET', KEYS[#KEYS], '#') or 0),
}
for at = 10, #KEYS - 1 do reply[#reply + 1] = redis.call('HLEN', KEYS[at]) end
return reply
