-- Reads waiting jobs, one page at a time. `ready`: ready jobs in their order, also those with a numbered priority, then
-- jobs that wait for their key or their group's turn, then due jobs that are not yet moved, then suspects. `scheduled`:
-- scheduled jobs by due time.
-- Flags: no-writes
-- KEYS: jobs, ready*3, due, tries, group_queue, suspects, void
-- ARGV: place, skip: number, most: number, bytes: number
--   place: ready or scheduled; bytes: limit per record
-- Reply: {now ms, {ready jobs per priority, scheduled jobs, jobs of groups, suspects}, entries read, problem,
--   then per job: id, due ms or 0, attempts, bytes of its record or -1 without one, the record's beginning}
-- include: now
-- include: stored
local ENTRIES, PROBLEM = 3, 4 -- fields of the reply
local lengths, ids, times = {}, {}, {}
for level, list in ipairs(ready) do lengths[level] = redis.call('LLEN', list) end
local of_groups, of_suspects = redis.call('ZCARD', group_queue), redis.call('ZCARD', suspects)
for _, length in ipairs({redis.call('ZCARD', due), of_groups, of_suspects}) do lengths[#lengths + 1] = length end
local came = redis.call('ZCOUNT', due, '-inf', math.floor(now / 1000))
if most > 0 and place == 'scheduled' then
  local found = redis.call('ZRANGE', due, came + skip, came + skip + most - 1, 'WITHSCORES')
  for at = 1, #found, 2 do
    ids[#ids + 1] = found[at]
    times[#times + 1] = tonumber(found[at + 1])
  end
elseif most > 0 then
  -- Add the jobs of the group queue between these places in it.
  local function add_entries(from, length)
    if #ids < most and skip < length then
      local last = math.min(from + length, from + skip + most - #ids) - 1
      for _, entry in ipairs(redis.call('ZRANGE', group_queue, from + skip, last)) do
        ids[#ids + 1] = string.match(entry, ' ([^ ]+)$')
      end
    end
    skip = math.max(0, skip - length)
  end
  local bounds = {0, 0, 0} -- entries before the levels 3, 7 and after 9
  for at, bound in ipairs(of_groups > 0 and {'(g 3', '(g 7', '(g :'} or {}) do
    bounds[at] = redis.call('ZLEXCOUNT', group_queue, '-', bound)
  end
  for level = 1, 3 do
    if #ids < most and skip < lengths[level] then
      for _, id in ipairs(redis.call('LRANGE', ready[level], skip, skip + most - #ids - 1)) do ids[#ids + 1] = id end
    end
    skip = math.max(0, skip - lengths[level])
    if level < 3 then add_entries(bounds[level], bounds[level + 1] - bounds[level]) end
  end
  add_entries(0, bounds[1])
  add_entries(bounds[3], of_groups - bounds[3])
  if #ids < most and skip < came then
    for _, id in ipairs(redis.call('ZRANGE', due, skip, math.min(came, skip + most - #ids) - 1)) do ids[#ids + 1] = id end
  end
  skip = math.max(0, skip - came)
  if #ids < most and skip < of_suspects then
    for _, id in ipairs(redis.call('ZRANGE', suspects, skip, skip + most - #ids - 1)) do ids[#ids + 1] = id end
  end
end
local reply, read = {math.floor(now / 1000), lengths, 0, ''}, 0
for at, id in ipairs(ids) do
  if read > BYTES then break end
  reply[ENTRIES] = at
  -- an entry in a ready list is void if its job was cancelled or moved
  if times[at] or ask('SISMEMBER', void, id) ~= 1 then
    local size = weight(jobs, id)
    local record = string.sub(field(jobs, id, size), 1, bytes)
    read = read + size
    if record == '' and ask('HEXISTS', jobs, id) ~= 1 then size = -1 end
    local attempts = tonumber(string.match(ask('HGET', tries, id) or '', '^%d+')) or 0
    for _, part in ipairs({id, times[at] or 0, attempts, size, record}) do reply[#reply + 1] = part end
  end
end
reply[PROBLEM] = problem
return reply
