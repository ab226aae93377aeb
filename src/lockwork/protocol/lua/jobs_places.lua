-- Counts the entries of each place of a queue, and reads what its workers run.
-- KEYS: ready*3, void, due, dead, group_queue, stats, workers, flows, history_order; runs*
-- ARGV: (session)
--   session: those that the caller knows, with their run hashes
-- Reply: {lengths of the ready lists, void places in them, lengths of group_queue, due, dead, history, blocked by flows,
--   due already (of due); successes that history left out; sessions, then per session that was given: {id, token, ...}}
-- include: now
local reply = {}
for _, list in ipairs(ready) do reply[#reply + 1] = redis.call('LLEN', list) end
reply[#reply + 1] = redis.call('SCARD', void)
for _, key in ipairs({group_queue, due, dead, history_order}) do reply[#reply + 1] = redis.call('ZCARD', key) end
reply[#reply + 1] = tonumber(redis.call('HGET', flows, '#') or 0)
reply[#reply + 1] = redis.call('ZCOUNT', due, '-inf', math.floor(now / 1000))
reply[#reply + 1] = tonumber(redis.call('HGET', stats, 'left_out') or 0)
reply[#reply + 1] = redis.call('ZRANGE', workers, 0, 999)
for _, run in ipairs(runs) do
  -- a worker process runs some thousands at most
  reply[#reply + 1] = redis.call('HLEN', run) <= 10000 and redis.call('HGETALL', run) or redis.call('HSCAN', run, 0, 'COUNT', 5000)[2]
end
return reply
