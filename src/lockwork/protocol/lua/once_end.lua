-- Keeps what came of a run until its period ends, and tells those who wait.
-- KEYS: once
-- ARGV: owner, fence, state: d(one), f(ailed) or l(ost), value
-- Reply: 1 kept, now or before; 0 that run does not count any more
-- Invariants: only the newest run's end is kept; a run whose lease was over may still end, as long as nobody ran it again
-- include: now
-- include: once
redis.call('HDEL', once, '') -- a script that has deleted may go on writing when the server is out of memory
if owner ~= ARGV[1] or found[4] ~= ARGV[2] or state == '' then return 0 end
if state == 'd' or state == 'f' or found[1] == 'l' then return state == ARGV[3] and 1 or 0 end
redis.call('HSET', once, 's', ARGV[3], 'v', ARGV[4])
keep(math.max(ends, now))
wake()
return 1
