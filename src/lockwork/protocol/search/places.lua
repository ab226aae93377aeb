-- Counts the entries of each place of a queue, and reads the jobs that its workers run.
-- Flags: no-writes
-- KEYS: ready*3, void, due, dead, group_queue, stats, workers, flows, history_order, suspects; runs*
-- ARGV: (session)
--   session: the first sessions that the caller knows, with their run hashes
-- Reply: {lengths of the ready lists, void entries in them, lengths of group_queue, due, dead, history, jobs blocked by
--   flows, entries of due that are due already, suspects; successes left out of history; 1 if jobs may have numbered
--   priorities; 1 if jobs may wait for limits of their tasks; all sessions, then the running jobs of the given
--   sessions, as in search/read_runs}
-- include: now
-- include: search/read_runs
local reply = {}
for _, list in ipairs(ready) do reply[#reply + 1] = redis.call('LLEN', list) end
reply[#reply + 1] = redis.call('SCARD', void)
for _, key in ipairs({group_queue, due, dead, history_order}) do reply[#reply + 1] = redis.call('ZCARD', key) end
reply[#reply + 1] = tonumber(redis.call('HGET', flows, '#') or 0)
reply[#reply + 1] = redis.call('ZCOUNT', due, '-inf', math.floor(now / 1000))
reply[#reply + 1] = redis.call('ZCARD', suspects)
local left_out, numbered, limited = unpack(redis.call('HMGET', stats, 'left_out', 'numbered', 'limited'))
reply[#reply + 1] = tonumber(left_out or 0)
reply[#reply + 1] = tonumber(numbered or 0)
reply[#reply + 1] = limited and 1 or 0
reply[#reply + 1] = redis.call('ZRANGE', workers, 0, -1)
for _, run in ipairs(runs) do read_run(reply, run, '0') end
return reply
