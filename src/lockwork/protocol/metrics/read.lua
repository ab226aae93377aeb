-- Reads counts and histograms of tasks for the last minutes or hours.
-- Flags: no-writes
-- KEYS: minutes*2, hours*2, counted_tasks
-- ARGV: unit, count: number, last, after, only
--   unit: m or h; last: the last minute or hour to read, '' for the current one
--   after: the last task of the previous call, or ''; only: this task, or '' for all
-- Reply: {now us, last, the last task or '' at the end, then per task: its name, {place, value, place, value, ...}}; a
--   place is 6 times the position of the minute or hour, from 0 for the oldest, plus the position of the letter in
--   ORDER
-- include: now
local LAST_TASK = 3 -- field of the reply
local OTHER = '(other)' -- as in parts/counts.lua, which writes
local ORDER = {'s', 'r', 'd', 'c', 'x', 'h'}
local MOST = 2100 -- fields that one call reads
local hashes, seconds, length = minutes, 60, 60
if unit == 'h' then hashes, seconds, length = hours, 3600, 168 end
last = tonumber(last) or math.floor(now / (seconds * 1000000))
-- a viewer may pass any numbers
count = math.min(MOST / #ORDER, count)
last = math.max(0, math.min(math.floor(now / (seconds * 1000000)), last))
local first = last - count + 1

-- Return the tasks with counts in this time, in order.
local function tasks_to_read()
  if only ~= '' then return {only} end
  local names, known = {}, redis.call('HGETALL', counted_tasks)
  local oldest = math.floor(first * seconds / 3600)
  for at = 1, #known, 2 do
    if known[at] ~= '#' and known[at] > after and tonumber(known[at + 1]) >= oldest then names[#names + 1] = known[at] end
  end
  if OTHER > after then names[#names + 1] = OTHER end
  table.sort(names)
  return names
end

local function values_of(task)
  local values = {}
  for number = 1, 2 do
    local fields, places = {}, {}
    for moment = first, last do
      if 1 + math.floor(moment / length) % 2 == number then
        for place, letter in ipairs(ORDER) do
          fields[#fields + 1] = moment .. letter .. task
          places[#places + 1] = (moment - first) * #ORDER + place - 1
        end
      end
    end
    for at, value in ipairs(#fields > 0 and redis.call('HMGET', hashes[number], unpack(fields)) or {}) do
      if value then
        values[#values + 1] = places[at]
        values[#values + 1] = value
      end
    end
  end
  return values
end

local reply, names = {now, last, ''}, tasks_to_read()
for at, task in ipairs(names) do
  if at > 1 and at * count * #ORDER > MOST then
    reply[LAST_TASK] = names[at - 1]
    break
  end
  reply[#reply + 1] = task
  reply[#reply + 1] = values_of(task)
end
return reply
