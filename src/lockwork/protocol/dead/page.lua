-- Reads dead jobs in the order of their deaths, one page at a time.
-- Flags: no-writes
-- KEYS: dead, jobs, errors, tries
-- ARGV: newest: flag, from, least, greatest, died, behind, most: number, bytes: number
--   newest: start with the newest; from: start of ages (ms) ('': now); least, greatest: ages, ms ('': any)
--   died, behind: last time and id of the previous page ('': start at the beginning); bytes: limit per record (0: read
--     neither records nor errors)
-- Reply: {start of ages (ms), number of jobs of such an age, 1 if there are more,
--   problem, then per job: id, time, attempts as in `tries` ('': none, or not read), bytes of its record or -1 without
--   one, its beginning, error without traceback}
-- Invariants: a job that is dead, and of that age, during the whole listing is returned exactly once
-- include: now
-- include: stored
-- include: rank
local MORE, PROBLEM = 3, 4 -- fields of the reply
local from = tonumber(from) or math.floor(now / 1000)

local from_time = greatest ~= '' and string.format('%.0f', from - greatest) or ''
local to_time = least ~= '' and string.format('%.0f', from - least) or ''
local first, last, count = ranks(dead, from_time, to_time, newest, died, behind)
local reply = {from, count, 0, ''}
local found = ranked(dead, first, last, newest, most)
if #found == 0 then return reply end
local read, taken = 0, 0
for at = 1, #found, 2 do
  if read > BYTES then break end
  taken = taken + 1
  local id, attempts, size, record, fault = found[at], '', 0, '', ''
  if bytes > 0 then
    size = weight(jobs, id)
    local length = weight(errors, id)
    read = read + size + length
    record = string.sub(field(jobs, id, size), 1, bytes)
    if record == '' and ask('HEXISTS', jobs, id) ~= 1 then size = -1 end
    fault = field(errors, id, length)
    local trace = string.find(fault, ',"traceback":"', 1, true)
    fault = trace and string.sub(fault, 1, trace - 1) .. '}' or string.sub(fault, 1, 8192)
    attempts = ask('HGET', tries, id) or ''
  end
  for _, part in ipairs({id, found[at + 1], attempts, size, record, fault}) do reply[#reply + 1] = part end
end
if taken < last - first + 1 then reply[MORE] = 1 end
reply[PROBLEM] = problem
return reply
