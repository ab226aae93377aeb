-- Reads one schedule by its name, or a range in the order of their latest declarations.
-- Flags: no-writes
-- KEYS: <schedules/schedule>
-- ARGV: name, first, last
--   name: '' for a range; first, last: positions
-- Reply: {now ms, then per schedule: name, 1 if a process declares it, definition, cursor, paused, last job, its slot,
--   enqueued, skipped because the last job had not ended, missed}
-- include: now
-- include: schedules/schedule
local lived = tonumber(redis.call('HGET', schedules, 'l') or 0)
local names = {name}
if name == '' then names = redis.call('ZRANGE', seen, first, last) end
local reply = {math.floor(now / 1000)}
for _, name in ipairs(names) do
  local known = load(name)
  local declared = tonumber(redis.call('ZSCORE', seen, name) or nil)
  if known and declared then
    reply[#reply + 1] = name
    reply[#reply + 1] = lived - declared < LEASE and 1 or 0
    reply[#reply + 1] = redis.call('HGET', schedules, 'd' .. name)
    for field = CURSOR, MISSED do reply[#reply + 1] = known[field] end
  end
end
return reply
