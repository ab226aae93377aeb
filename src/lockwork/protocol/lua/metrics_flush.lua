-- Adds to the histograms of wait and run times, by task for this minute and this hour.
-- KEYS: stats, minutes*2, hours*2, counted_tasks
-- ARGV: session, number, (task, times)
--   number: of this call of the session; times: MessagePack {wait, run}, each {sum us, bucket, count, bucket, count, ...}
-- Reply: 1, or 0 when the call was applied before
-- Invariants: a call adds once
-- include: now
-- include: counts
local minute, hour = now_in(minutes, 60, 60), now_in(hours, 3600, 168)
if redis.call('HGET', minute.hash, '@' .. session) == number then return 0 end

local function merged(one, other)
  local sum, counts, list = 0, {}, {}
  for _, times in ipairs({one, other}) do
    sum = sum + (times[1] or 0)
    for at = 2, #times, 2 do counts[times[at]] = (counts[times[at]] or 0) + times[at + 1] end
  end
  list[1] = sum
  for bucket, count in pairs(counts) do
    list[#list + 1] = bucket
    list[#list + 1] = count
  end
  return list
end

for at = FIRST, #ARGV, STRIDE do
  local task, times = ARGV[at], cmsgpack.unpack(ARGV[at + 1])
  if task ~= OTHER and not has_name(task, hour.number) then task = OTHER end
  for _, moment in ipairs({minute, hour}) do
    local field = moment.number .. 'h' .. task
    local known = redis.call('HGET', moment.hash, field)
    local readable, old = pcall(cmsgpack.unpack, known or '')
    if not known or not readable or type(old) ~= 'table' then old = {{}, {}} end
    redis.call('HSET', moment.hash, field, cmsgpack.pack({merged(old[1], times[1]), merged(old[2], times[2])}))
    if not known then redis.call('PEXPIRE', moment.hash, moment.lasts) end
  end
end
redis.call('HSET', minute.hash, '@' .. session, number)
redis.call('PEXPIRE', minute.hash, minute.lasts)
return 1
