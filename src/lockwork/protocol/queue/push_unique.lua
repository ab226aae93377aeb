-- Enqueues jobs with unique names. If another job has the name, the new job is not enqueued, and may replace that job.
-- KEYS: <queue/push>, <queue/groups>, <queue/suspects>, tries: hash, job_notes: hash, dead: zset, expiry: zset, unique: hash, unique_ends: zset,
--   timelines: hash, parked: zset, parked_since: hash
-- ARGV: again: flag, limit, taken_ms: number, meaning, longest: number, (id, record, delay)
--   again: an earlier try may have been applied; limit: ms until the jobs expire (negative: a point in time; '': never)
--   taken_ms: how long a name stays in use, ms (0: until its job begins or ends, depending on its header)
--   meaning: effect on the job that has the name: k (none); r (if it waits, this job replaces it; without a delay it
--     keeps its place); b (as r, and it becomes due after the delay)
--   longest: latest due time, in ms from the first call (0: no limit); delay: as in queue/push
-- Indexed: stats
-- Reply: per job the id of the job that has the name, and n (new), k (nothing changed), r (replaced) or m (replaced and
--   moved); or {waiting, size} if the new jobs do not fit, and nothing changed
-- Invariants: a name has one job; a running or ended job does not change; a job is in one place before and after
-- include: now
-- include: queue/push
-- include: queue/groups
-- include: queue/parked
-- include: queue/suspects
local now_ms = math.floor(now / 1000)
-- Return the job that has the name, and its latest due time.
local function holder_of(name)
  local id, latest = name_holder(name, dead)
  -- an overdue job will not run
  if id and tonumber(redis.call('ZSCORE', expiry, id) or now_ms + 1) > now_ms then return id, latest end
  local owner, upto = string.match(redis.call('HGET', unique, name) or '', '^(%S+) (%d+)$')
  if owner and tonumber(upto) > now_ms then return owner end
end

local named = {}
local function met(record)
  local _, name = unique_name(record)
  local taken = named[name] or holder_of(name)
  named[name] = true
  return taken
end

local no_room = check_room_for_new(FIRST, again, dead, met)
if no_room then return no_room end
local args, reply = {}, {}
for at = 1, #ARGV do args[at] = ARGV[at] end
for at = #ARGV, 1, -1 do ARGV[at] = nil end -- push() reads ARGV

local function take_name(name, id)
  if taken_ms > 0 then
    redis.call('HDEL', groups, 'u ' .. name) -- may remain after a deletion with redis-cli
    redis.call('HSET', unique, name, string.format('%s %.0f', id, now_ms + taken_ms))
    redis.call('ZADD', unique_ends, now_ms + taken_ms, name)
    for _, key in ipairs({unique, unique_ends}) do
      if redis.call('PTTL', key) < taken_ms + 60000 then redis.call('PEXPIRE', key, taken_ms + 60000) end
    end
  else
    redis.call('HSET', groups, 'u ' .. name, longest > 0 and string.format('%s %.0f', id, now_ms + longest) or id)
  end
end

-- Replace the job that has the name, if `meaning` allows it.
local function become(id, record, delay, latest)
  local waits, stands = redis.call('ZSCORE', due, id), redis.call('HEXISTS', groups, '@ ' .. id) == 1
  local old = redis.call('HGET', jobs, id)
  if meaning == 'k' or not old or not (waits or stands or is_suspect(id)) then return 'k' end
  local other = string.match(old, '^[^;]*') ~= string.match(record, '^[^;]*')
  local suspected = clear_suspect(id)
  local at = (delay ~= '0' or meaning == 'b') and math.max(now_ms, moment(delay)) or nil
  if at and latest then at = math.max(now_ms, math.min(at, latest)) end
  redis.call('HSET', jobs, id, record)
  mark_if_heavy(record)
  -- attempts and notes belong to the old call
  redis.call('HDEL', tries, id)
  redis.call('HDEL', timelines, id)
  redis.call('HDEL', job_notes, id)
  if limit ~= '' then redis.call('ZADD', expiry, moment(limit), id) else redis.call('ZREM', expiry, id) end
  local unparked = waits and unpark({id}, true) -- the task of the old call was unknown to workers
  stands = stands or unparked
  if other or at or suspected or unparked then
    leave_group_queue(id, old)
    if at or stands or suspected then redis.call('ZADD', due, at or now_ms, id) end
    -- its key may have passed to another job; an idle worker need not learn of a later due time
    local _, key = header(old)
    if key or stands or suspected or (at and at < tonumber(waits)) then wake(1) end
  end
  return at and 'm' or 'r'
end

-- Enqueue a job, unless its name is in use.
local function come(id, record, delay)
  if again and (has_result(id) or redis.call('HEXISTS', jobs, id) == 1) then return id, 'n' end
  local _, name = unique_name(record)
  local holder, latest = holder_of(name)
  if holder then return holder, become(holder, record, delay, latest) end
  if limit ~= '' then redis.call('ZADD', expiry, moment(limit), id) end
  ARGV[1], ARGV[2], ARGV[3] = id, record, delay
  push(1, again)
  take_name(name, id)
  return id, 'n'
end

for at = FIRST, #args, STRIDE do
  local id, change = come(args[at], args[at + 1], args[at + 2])
  reply[#reply + 1] = id
  reply[#reply + 1] = change
end
local over = redis.call('ZRANGEBYSCORE', unique_ends, '-inf', now_ms, 'LIMIT', 0, 500)
if #over > 0 then
  redis.call('HDEL', unique, unpack(over))
  redis.call('ZREM', unique_ends, unpack(over))
end
return reply
