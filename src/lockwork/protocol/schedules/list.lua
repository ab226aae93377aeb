-- Reads one schedule by its name, or a range of the schedules in code in the order of their latest declarations.
-- Flags: no-writes
-- KEYS: <schedules/schedule>, created_names: zset
-- ARGV: name, first, last
--   name: '' for a range; first, last: positions
-- Reply: {now ms, number of created schedules, then per schedule: name, 2 if it was created at run time, 1 if a process declares it, else 0,
--   definition, cursor, paused, last job, its slot, enqueued, skipped because the last job had not ended, missed}
-- include: now
-- include: schedules/row
local names = {name}
if name == '' then names = redis.call('ZRANGE', seen, first, last) end
local reply = {math.floor(now / 1000), redis.call('ZCARD', created_names)}
for _, name in ipairs(names) do append_row(reply, name) end
return reply
