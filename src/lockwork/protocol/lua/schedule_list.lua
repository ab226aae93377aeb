-- Reads schedules: one by its name, or some by their place in the order in which they were declared last.
-- KEYS: schedules, seen
-- ARGV: name ('' for many), place of the first, place of the last
-- Reply: {now ms, then per schedule: name, 1 if somebody declares it, definition, cursor, paused, last job, its slot, enqueued,
--   skipped because the last job had not ended}
-- include: now
-- include: schedule
local lived = tonumber(redis.call('HGET', schedules, 'l') or 0)
local names = {ARGV[1]}
if ARGV[1] == '' then names = redis.call('ZRANGE', seen, ARGV[2], ARGV[3]) end
local reply = {math.floor(now / 1000)}
for _, name in ipairs(names) do
  local known = load(name)
  local declared = tonumber(redis.call('ZSCORE', seen, name) or nil)
  if known and declared then
    reply[#reply + 1] = name
    reply[#reply + 1] = lived - declared < LEASE and 1 or 0
    reply[#reply + 1] = redis.call('HGET', schedules, 'd' .. name)
    for field = CURSOR, OVERLAPPED do reply[#reply + 1] = known[field] end
  end
end
return reply
