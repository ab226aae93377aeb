-- Adds to the histograms of wait and run times and to the counts of overruns, by task for this minute and this hour.
-- KEYS: stats, minutes*2, hours*2, counted_tasks
-- ARGV: session, number, (task, times)
--   number: sequence number of this call in the session; times: MessagePack {wait, run}, each {sum us, bucket, count,
--     bucket, count, ...}; then, unless it is 0, the number of attempts that ignored their time-out
-- Reply: 1, or 0 if the call was applied before
-- Invariants: a call adds once
-- include: now
-- include: metrics/counts
local minute, minute_hash = minute_now()
local hour, hour_hash = hour_now()
if redis.call('HGET', minute_hash, '@' .. session) == number then return 0 end

-- Return the sum of two histograms {sum us, bucket, count, bucket, count, ...}.
local function merged(one, other)
  local counts, total = {}, 0
  for _, histogram in ipairs({one, other}) do
    total = total + (histogram[1] or 0)
    for at = 2, #histogram, 2 do
      local bucket, count = histogram[at], histogram[at + 1]
      counts[bucket] = (counts[bucket] or 0) + count
    end
  end
  local list = {total}
  for bucket, count in pairs(counts) do
    list[#list + 1] = bucket
    list[#list + 1] = count
  end
  return list
end

-- Return true for the first value of this task.
local function add(hash, field, times)
  local known = redis.call('HGET', hash, field)
  local readable, old = pcall(cmsgpack.unpack, known or '')
  if not known or not readable or type(old) ~= 'table' then old = {} end
  local old_wait, old_run, old_overruns = unpack(old, 1, 3)
  local wait, run, overruns = unpack(times, 1, 3)
  local both = {merged(old_wait or {}, wait), merged(old_run or {}, run)}
  if old_overruns or overruns then both[#both + 1] = (old_overruns or 0) + (overruns or 0) end
  redis.call('HSET', hash, field, cmsgpack.pack(both))
  return not known
end

for at = FIRST, #ARGV, STRIDE do
  local task, times = ARGV[at], cmsgpack.unpack(ARGV[at + 1])
  if task ~= OTHER and not has_name(task, hour) then task = OTHER end
  if add(hour_hash, hour .. 'h' .. task, times) then keep_period(hour_hash, 168 * 3600) end
  add(minute_hash, minute .. 'h' .. task, times)
end
redis.call('HSET', minute_hash, '@' .. session, number)
keep_period(minute_hash, 3600)
return 1
