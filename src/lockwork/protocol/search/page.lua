-- Reads jobs of one place, one page at a time, except jobs whose id, record and error lack the required texts.
-- Flags: no-writes
-- KEYS: jobs, ready*3, due, tries, dead, errors, groups, group_queue, suspects, void, stats, flows, history, history_order,
--   timelines
-- ARGV: place, newest: flag, score, behind, least, greatest, most: number, reads: number, matches: number, bytes: number,
--   earliest, latest, suffix, letters, guarded: flag, needles: number, texts...
--   place: ready:0, ready:1, ready:2, groups, or a part of groups: groups LINE, groups k (the lines of all keys), groups t (of all tasks);
--     holder KEY (the job that has the key, if it is ready), came (due, and not yet moved), due (later), suspects,
--     dead, history, blocked, or ids
--   score, behind: the last entry of the previous page, by score and id ('': start at the beginning); in a list, score
--     is the number of entries to skip; for blocked, the cursor of a scan
--   least, greatest: scores of due, dead, history ('': any); most: limit of entries; reads, matches: limits of records
--     read and of matches
--   bytes: limit per record, at most MOST; earliest, latest: range of creation times (ms) by id ('': any); other
--     records are not read
--   suffix: pattern that an id's suffix must match if it has one ('': any); other records are not read
--   letters: outcomes to include from history ('': any); guarded: do not search jobs with hidden arguments. The reply
--     contains all such jobs, and they do not count as matches, so that only the reply depends on the arguments
--   texts: `needles` texts, then the ids
-- Reply: {now ms, total of such entries, entries read, records read, 1 if there are more,
--   next score, next id, problem, then per job: its score or position, id, the entry in `tries`, bytes of its record,
--   the record's beginning, error without traceback, timeline, row of history}; jobs that are not read completely, and
--   may match, are included
-- include: now
-- include: stored
-- include: rank
-- include: history/row
local ENTRIES, RECORDS, MORE, NEXT_SCORE, NEXT_ID, PROBLEM = 3, 4, 5, 6, 7, 8 -- fields of the reply
-- a viewer may pass any arguments, and a pattern with repetitions can run for hours
if string.find(string.gsub(suffix, '%%%-', ''), '[^%w_.%[%]^]') then return redis.error_reply('ERR suffix has repetitions') end
needles = math.max(0, math.min(#ARGV, needles))
local wanted, given = {}, {}
for at = 1, needles do wanted[at] = ARGV[FIRST + at - 1] end
for at = FIRST + needles, #ARGV do given[#given + 1] = ARGV[at] end
local kind, line = string.match(place, '^(%a+) ?(.*)$')
local level = string.match(place, '^ready:([012])$')
local any_void = level and ask('EXISTS', void) == 1

-- Return entries {score or position, id, ...}, their total, whether more entries follow, and the next cursor of a scan.
local function entries()
  local found, skip = {}, tonumber(score) or 0
  if level then
    local list = ready[1 + level]
    local length = ask('LLEN', list) or 0
    local first, last = skip, skip + most - 1
    if newest then first, last = length - skip - most, length - skip - 1 end
    local ids = last >= 0 and ask('LRANGE', list, math.max(0, first), last) or {}
    local count = #ids
    for at = 1, count do
      found[2 * at - 1], found[2 * at] = skip + at, ids[newest and count + 1 - at or at]
    end
    return found, length, skip + count < length
  elseif kind == 'groups' then
    local count, all
    if line == '' then
      count = ask('ZCARD', group_queue) or 0
      if newest then
        all = ask('ZREVRANGE', group_queue, skip, skip + most - 1) or {}
      else
        all = ask('ZRANGE', group_queue, skip, skip + most - 1) or {}
      end
    else
      local low, high = '[' .. line .. '\n', '(' .. line .. '\v'
      if line == 'k' or line == 't' then low, high = '[' .. line .. ' ', '(' .. line .. '!' end
      count = ask('ZLEXCOUNT', group_queue, low, high) or 0
      local from = newest and math.max(0, count - skip - most) or skip
      local number = newest and math.min(most, count - skip) or most
      all = number > 0 and ask('ZRANGEBYLEX', group_queue, low, high, 'LIMIT', from, number) or {}
    end
    for at = 1, #all do
      found[#found + 1] = skip + at
      found[#found + 1] = string.match(all[newest and line ~= '' and #all + 1 - at or at], ' ([^ ]+)$')
    end
    return found, count, skip + #all < count
  elseif kind == 'blocked' then
    local cursor, fields = unpack(ask('HSCAN', flows, score == '' and '0' or score, 'MATCH', '* w*', 'COUNT', most) or {'0', {}})
    for at = 1, #fields, 2 do
      local flow, number = string.match(fields[at], '^(.+) w(%d+)$')
      if flow then
        found[#found + 1] = cursor
        found[#found + 1] = string.format('%s.%05d', flow, number)
      end
    end
    return found, tonumber(ask('HGET', flows, '#') or 0), cursor ~= '0', cursor
  elseif kind == 'holder' then
    local id = ask('HGET', groups, 'h ' .. line)
    local waits = id and skip == 0 and (ask('HEXISTS', groups, '@ ' .. id) == 1 or ask('ZSCORE', suspects, id))
    return waits and {1, id} or {}, waits and 1 or 0, false
  elseif kind == 'ids' then
    for at = 1, #given do
      found[#found + 1] = at
      found[#found + 1] = given[at]
    end
    return found, #given, false
  end
  local key = (kind == 'due' or kind == 'came') and due or kind == 'dead' and dead or kind == 'suspects' and suspects or history_order
  if kind == 'came' then greatest = string.format('%.0f', math.floor(now / 1000)) end
  if kind == 'due' then least = string.format('%.0f', math.floor(now / 1000) + 1) end
  if not ask('ZCARD', key) then return found, 0, false end
  local first, last, count = ranks(key, least, greatest, newest, score, behind)
  local some = ranked(key, first, last, newest, most)
  for at = 1, #some, 2 do some[at], some[at + 1] = some[at + 1], some[at] end
  return some, count, last - first + 1 > #some / 2
end

-- Return whether a record may belong to a job with hidden arguments. A row of history contains the record at any
-- position.
local function may_hide(record)
  if not guarded then return false end
  if kind == 'history' then return string.find(record, '/,', 1, true) end
  return string.find(record, '^%d,[%d/]*/,')
end

local function contains(id, record, fault, timeline)
  for _, text in ipairs(wanted) do
    if not string.find(record, text, 1, true) and not string.find(fault, text, 1, true)
      and not string.find(timeline, text, 1, true) and not string.find(id, text, 1, true) then
      return false
    end
  end
  return true
end

-- Return whether history has only the beginning of this row's record.
local function is_cut(row)
  if #row < 1024 then return false end
  local _, record, size = unpack_row(row)
  return record and size ~= #record
end

local found, total, more, cursor = entries()
local reply = {
  math.floor(now / 1000), total, #found / 2, 0, more and 1 or 0, found[#found - 1] or score, found[#found] or behind, '',
}

-- Remove entries whose ids cannot match. `numbers`: positions of the remaining entries. An id with a suffix has 18 or
-- 23 characters. An id made by a schedule has an @, and neither a suffix nor a time. An id in a flow has a dot,
-- and no suffix. A caller's own id begins with a colon, and has neither.
local numbers = {}
local values, find, byte = {}, string.find, string.byte
local first_ms, last_ms = tonumber(earliest) or 0, tonumber(latest) or math.huge
local timed = earliest ~= '' or latest ~= ''
if timed then
  local signs = '-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz'
  for at = 1, #signs do values[byte(signs, at)] = at - 1 end
end
-- The first seven characters of an id encode ms since 1970.
local function in_time(id)
  local made = 0
  for at = 1, 7 do
    local value = values[byte(id, at)]
    if not value then return true end
    made = made * 64 + value
  end
  return made >= first_ms and made <= last_ms
end
if timed or suffix ~= '' then
  local kept = {}
  for at = 1, #found, 2 do
    local id = found[at + 1]
    local length = #id
    local fits = suffix == '' or find(id, suffix, 17) or (length ~= 18 and length ~= 23) or find(id, '.', 17, true)
    if (fits and (not timed or in_time(id))) or find(id, '@', 1, true) or byte(id) == 58 then
      kept[#kept + 1] = found[at]
      kept[#kept + 1] = id
      numbers[#kept] = (at + 1) / 2
    end
  end
  found = kept
end

local records, read, matching = 0, 0, 0
local function add(matches, ...)
  for _, part in ipairs({...}) do reply[#reply + 1] = part end
  if matches then matching = matching + 1 end
end

-- Read small records in batches.
local heavy = kind ~= 'history' and ask('HEXISTS', stats, 'heavy') == 1
local any_timeline, chunk, pasts, chunk_from = kind ~= 'history' and ask('HLEN', timelines) ~= 0, {}, {}, 1
local function stored(at)
  local id = found[at + 1]
  if heavy then
    local size = weight(jobs, id)
    return field(jobs, id, size), size
  end
  if at >= chunk_from + 2 * #chunk then
    local ids = {}
    for next = at + 1, math.min(at + 199, #found), 2 do ids[#ids + 1] = found[next] end
    chunk, chunk_from = ask('HMGET', kind == 'history' and history or jobs, unpack(ids)) or {}, at
    pasts = any_timeline and ask('HMGET', timelines, unpack(ids)) or {}
  end
  local record = chunk[(at - chunk_from) / 2 + 1] or ''
  return record, #record
end

for at = 1, #found, 2 do
  -- the next scan step starts after all entries of this step
  if (read > BYTES or records >= reads or matching >= matches) and kind ~= 'blocked' then
    reply[ENTRIES], reply[MORE] = numbers[at - 1] or (at - 1) / 2, 1
    reply[NEXT_SCORE], reply[NEXT_ID] = found[at - 2], found[at - 1]
    break
  end
  local id = found[at + 1]
  records = records + 1
  local record, size = stored(at)
  read = read + size
  if kind == 'history' then
    if size > 0 and (letters == '' or string.find(letters, string.sub(record, 3, 3), 1, true)) then
      local hides = may_hide(record)
      local matches = not hides and contains(id, record, '', '')
      if matches or hides or is_cut(record) then add(matches, found[at], id, '', 0, '', '', '', record) end
    end
  elseif size > 0 and not (any_void and ask('SISMEMBER', void, id) == 1) then
    local fault = kind == 'dead' and field(errors, id, weight(errors, id)) or ''
    local trace = string.find(fault, ',"traceback":"', 1, true)
    fault = trace and string.sub(fault, 1, trace - 1) .. '}' or string.sub(fault, 1, 8192)
    local timeline = heavy and any_timeline and ask('HGET', timelines, id) or pasts[(at - chunk_from) / 2 + 1] or ''
    local hides = may_hide(record)
    local matches = not hides and contains(id, record, fault, timeline)
    if matches or hides or size > MOST then
      add(matches, found[at], id, ask('HGET', tries, id) or '', size, string.sub(record, 1, bytes), fault, timeline, '')
    end
  end
end
reply[RECORDS] = records
if cursor then reply[NEXT_SCORE] = cursor end
reply[PROBLEM] = problem
return reply
