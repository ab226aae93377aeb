-- Keeps the outcome of a run until its period ends, and notifies waiters.
-- KEYS: once
-- ARGV: asker, seen, ends_as, value
--   asker, seen: owner and fence of the run; ends_as: d(one), f(ailed) or l(ost)
-- Out of memory: goes on
-- Reply: 1 kept, now or before; 0 that run does not count any more
-- Invariants: only the newest run's end is kept; a run whose lease was over may still end, unless another run began
-- include: now
-- include: once
if owner ~= asker or found[4] ~= seen or state == '' then return 0 end
if state == 'd' or state == 'f' or found[1] == 'l' then return state == ends_as and 1 or 0 end
redis.call('HSET', once, 's', ends_as, 'v', value)
keep(math.max(ends, now))
wake()
return 1
